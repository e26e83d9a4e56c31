"""What single pairs of a quantized model (Q/DQ, Casts), or roundings to blocks, do to its outputs on a few samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.common_shape import is_float_array
from quarkfast.evaluate.logits import Logits, logits_of
from quarkfast.evaluate.noise import OutputNoise, SignalAndNoise, powers_of
from quarkfast.evaluate.output_parts import OutputParts
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked
from quarkfast.formats import BLOCK_OPERATORS

__all__ = ["PairTrial"]

_SWITCH = "quarkfast_switch_"
_SIZE = "quarkfast_size_"
_QUANTIZE = ("QuantizeLinear", "ExtendedQuantizeLinear")
_DEQUANTIZE = ("DequantizeLinear", "ExtendedDequantizeLinear")
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)

_Parts = list[NDArray[np.float64]]


class PairTrial:
    """One session on a quantized model, whose pairs behind activations may each be left out of a run.

    Attributes:
        sizes: Name of a tensor that a pair rounds -> its number of elements, in the order of the nodes.
        outputs: Number of floats that the model gives for the first sample, without logits.
    """

    def __init__(self, quantized: bytes, reference: bytes, feeds: Sequence[Feed]) -> None:
        """Opens the session, and runs the float model and the quantized one.

        Args:
            quantized: The quantized model.
            reference: The float model, with the same inputs and outputs.
            feeds: Arrays by the names of the inputs.

        Raises:
            ModelError: If ONNX Runtime does not take a model or a feed.
        """
        model, wanted = (judge_unranked(onnx.load_model_from_string(each)) for each in (quantized, reference))
        given = len(wanted.graph.output)
        self._logits = _judge_logits_also(model, wanted)
        self._names = [output.name for output in wanted.graph.output]
        tensors = _with_switches(model)
        session = _open(wanted.SerializeToString())
        runs = [dict(zip(self._names, ort.run(session, feed), strict=True)) for feed in feeds]
        floats = [{name: each for name, each in run.items() if is_float_array(each)} for run in runs]
        self.outputs = sum(floats[0][name].size for name in self._names[:given] if name in floats[0])
        self._parts = OutputParts(wanted, feeds, floats[0])
        self._wanted = [self._split(sample, list(run.values())) for sample, run in enumerate(runs)]
        self._power = np.array([[powers_of(part, part).signal for part in parts] for parts in self._wanted])
        del session, runs, floats
        _core.release_memory()
        self._model = model.SerializeToString()
        self._session: Any = None
        self._feeds, self._all = feeds, tensors
        sizes = self._run(feeds[0], tensors)[-len(tensors) :] if tensors else []
        self.sizes = {name: int(size) for name, size in zip(tensors, sizes, strict=True)}
        self._unrounded: list[_Parts] | None = None

    def noise(self, rounded: Collection[str], samples: int | None = None) -> float:
        """Returns the noise of the worst output as a part of its power, where pairs round these tensors alone.

        Logits count as outputs do, and so does each part of an output that joins tensors of unlike magnitudes.

        Args:
            rounded: Names of tensors.
            samples: How many of the samples are run, the first ones; all by default.
        """
        found = self._noise(self._wanted[:samples], rounded).by_part()
        return float(np.max(found, initial=0.0))

    def own_noise(self, rounded: Collection[str], samples: int | None = None) -> float:
        """Returns what pairs of these tensors alone add to all outputs together, as parts of the power of each.

        It is the distance to what the model gives where no pair rounds, so that what weights lost does not hide it.
        What independent roundings add sums up, also where a Softmax is sure of most samples, or of none.

        Args:
            rounded: Names of tensors.
            samples: How many of the samples are run, the first ones; all by default.
        """
        if self._unrounded is None:
            self._unrounded = self._outputs(len(self._feeds), ())
        own = self._noise(self._unrounded[:samples], rounded)
        return float(np.sum(replace(own, signal=self._power[: len(own.noise)]).by_part()))

    def _noise(self, beside: Sequence[_Parts], rounded: Collection[str]) -> OutputNoise:
        """Returns the noise of each output and part of one beside what is given."""
        found = list[list[SignalAndNoise]]()
        for wanted, given in zip(beside, self._outputs(len(beside), rounded), strict=True):
            same = len(wanted) == len(given)
            pairs = zip(wanted, given if same else wanted, strict=True)
            powers = [powers_of(*pair) for pair in pairs]
            found.append(powers if same else [each._replace(noise=np.inf) for each in powers])
        return OutputNoise.of(found)

    def _outputs(self, samples: int, rounded: Collection[str]) -> list[_Parts]:
        wanted, count = set(rounded), len(self._names)
        return [self._split(index, self._run(self._feeds[index], wanted)[:count]) for index in range(samples)]

    def _split(self, sample: int, outputs: Sequence[NDArray[np.generic]]) -> _Parts:
        """Returns the parts of outputs of floats; one that a target gives in another shape is one row all the same."""
        return [
            np.asarray(part, np.float64)
            for name, each in zip(self._names, outputs, strict=True)
            for part in (self._parts.split(sample, name, self._telling(name, each)) if is_float_array(each) else [])
        ]

    def _telling(self, name: str, values: NDArray[np.generic]) -> NDArray[np.generic]:
        return self._logits[name].telling(values) if name in self._logits else values

    def close(self) -> None:
        """Ends the session, and gives its memory back; another one is opened where noise is asked for again."""
        self._session = None
        _core.release_memory()

    def _run(self, feed: Feed, rounded: Collection[str]) -> list[NDArray[np.generic]]:
        if self._session is None:
            self._session = _open(self._model)
        switches = {f"{_SWITCH}{index}": np.array(name in rounded) for index, name in enumerate(self._all)}
        return ort.run(self._session, {**feed, **switches})


def _open(model: bytes) -> Any:
    return ort.inference_session(model, ort.session_options(optimize=False, spinning=False))


def _judge_logits_also(model: onnx.ModelProto, reference: onnx.ModelProto) -> dict[str, Logits]:
    """Puts the logits that both models have, and that are no outputs yet, behind the outputs in one order, in place.

    Returns:
        Name in `reference` -> these logits.
    """
    own, added = logits_of(model), dict[str, Logits]()
    for name, logits in logits_of(reference).items():
        if name in own and logits.tensor not in {output.name for output in reference.graph.output}:
            model.graph.output.append(onnx.ValueInfoProto(name=own[name].tensor))
            reference.graph.output.append(onnx.ValueInfoProto(name=logits.tensor))
            added[logits.tensor] = logits
    return added


def _with_switches(model: onnx.ModelProto) -> list[str]:
    """Puts the pairs of each activation into an If, and the size of the tensor among the outputs, in place.

    A run computes the branch that it takes and no other: most runs round few tensors.
    """
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    codes = {node.output[0]: node for node in graph.node if node.op_type in _QUANTIZE or _cast_to(node) in _HALVES}
    read = Counter(name for node in graph.node for name in node.input)
    outputs = {each.name for each in graph.output}
    nodes, tensors, inside = list[onnx.NodeProto](), list[str](), set[str]()
    for node in graph.node:
        source = _rounding(node, codes)
        if source is None or source.input[0] in constants:
            nodes.append(node)
            continue
        tensor = source.input[0]
        if tensor not in tensors:
            index = len(tensors)
            tensors.append(tensor)
            graph.input.append(onnx.helper.make_tensor_value_info(f"{_SWITCH}{index}", onnx.TensorProto.BOOL, []))
            graph.output.append(onnx.helper.make_tensor_value_info(f"{_SIZE}{index}", onnx.TensorProto.INT64, []))
            nodes.append(onnx.helper.make_node("Size", [tensor], [f"{_SIZE}{index}"]))
        alone = source is not node and read[source.output[0]] == 1 and source.output[0] not in outputs
        inside |= {source.output[0]} if alone else set()
        nodes.append(_choice(f"{_SWITCH}{tensors.index(tensor)}", [source] if alone else [], node, tensor))
    kept = [node for node in nodes if not inside & set(node.output)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return tensors


def _rounding(node: onnx.NodeProto, codes: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """Returns the node that reads what the end of a pair gives rounded: that of blocks is one node; None for others."""
    if node.op_type in BLOCK_OPERATORS:
        return node
    ends = node.op_type in _DEQUANTIZE or _cast_to(node) == onnx.TensorProto.FLOAT
    return codes.get(node.input[0]) if ends else None


def _cast_to(node: onnx.NodeProto) -> int | None:
    """Returns the type that a Cast gives; None of other nodes."""
    return next((each.i for each in node.attribute if each.name == "to"), None) if node.op_type == "Cast" else None


def _choice(switch: str, before: Sequence[onnx.NodeProto], pair: onnx.NodeProto, tensor: str) -> onnx.NodeProto:
    """Returns an If that gives what a pair makes of a tensor where the switch is on, and else the tensor."""
    name = pair.output[0]
    branches = []
    for suffix in ("rounded", "left"):
        output = f"{name}_quarkfast_{suffix}"
        last = onnx.helper.make_node("Identity", [tensor], [output])
        body = [last]
        if suffix == "rounded":
            rounded = onnx.NodeProto.FromString(pair.SerializeToString())
            rounded.output[0] = output
            body = [*before, rounded]
        branches.append(onnx.helper.make_graph(body, output, [], [onnx.ValueInfoProto(name=output)]))
    return onnx.helper.make_node("If", [switch], [name], then_branch=branches[0], else_branch=branches[1])
