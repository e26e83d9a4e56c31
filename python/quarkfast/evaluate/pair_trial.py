"""What single Q/DQ pairs of a quantized model do to its outputs, on a few samples."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.logits import logits_of
from quarkfast.evaluate.partial_model import Feed

__all__ = ["PairTrial"]

_SWITCH = "quarkfast_switch_"
_SIZE = "quarkfast_size_"
_QUANTIZE = ("QuantizeLinear", "ExtendedQuantizeLinear")
_DEQUANTIZE = ("DequantizeLinear", "ExtendedDequantizeLinear")


class PairTrial:
    """One session on a quantized model, whose pairs behind activations may each be left out of a run.

    Attributes:
        sizes: Name of a tensor that a pair rounds -> its number of elements, in the order of the nodes.
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
        model, wanted = onnx.load_model_from_string(quantized), onnx.load_model_from_string(reference)
        _judge_logits_also(model, wanted)
        tensors = _with_switches(model)
        options = ort.session_options(optimize=False, spinning=False)
        session = ort.inference_session(wanted.SerializeToString(), options)
        self._wanted = [_floats(ort.run(session, feed)) for feed in feeds]
        self._session = ort.inference_session(model.SerializeToString(), options)
        self._feeds, self._all = feeds, tensors
        sizes = self._run(feeds[0], tensors)[-len(tensors) :] if tensors else []
        self.sizes = {name: int(size) for name, size in zip(tensors, sizes, strict=True)}

    def noise(self, rounded: Collection[str]) -> float:
        """Returns the noise of the worst output as a part of its power, where pairs round these tensors alone.

        Logits count as outputs do: their noise is about the sum of what single tensors make, also where a Softmax is
        sure of most samples, or of none.
        """
        wanted = set(rounded)
        found = [
            _floats(self._run(feed, wanted)[: len(one)]) for feed, one in zip(self._feeds, self._wanted, strict=True)
        ]
        signal, noise = (np.zeros(len(self._wanted[0])) for _ in range(2))
        for one, other in zip(self._wanted, found, strict=True):
            signal += [_power(each) for each in one]
            noise += [_difference(each, mine) for each, mine in zip(one, other, strict=True)]
        return float(np.max(noise[signal > 0] / signal[signal > 0], initial=0.0))

    def close(self) -> None:
        """Ends the session, and gives its memory back."""
        self._session = None
        _core.release_memory()

    def _run(self, feed: Feed, rounded: Collection[str]) -> list[NDArray[np.generic]]:
        switches = {f"{_SWITCH}{index}": np.array(name in rounded) for index, name in enumerate(self._all)}
        return ort.run(self._session, {**feed, **switches})


def _judge_logits_also(model: onnx.ModelProto, reference: onnx.ModelProto) -> None:
    """Puts the logits that both models have, and that are no outputs yet, behind the outputs in one order, in place."""
    own, wanted = logits_of(model), logits_of(reference)
    for name, logits in wanted.items():
        if name in own and logits not in {output.name for output in reference.graph.output}:
            model.graph.output.append(onnx.ValueInfoProto(name=own[name]))
            reference.graph.output.append(onnx.ValueInfoProto(name=logits))


def _with_switches(model: onnx.ModelProto) -> list[str]:
    """Puts a Where behind every pair of an activation, and the size of the tensor among the outputs, in place."""
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    codes = {node.output[0]: node for node in graph.node if node.op_type in _QUANTIZE}
    nodes, tensors = list[onnx.NodeProto](), list[str]()
    for node in graph.node:
        nodes.append(node)
        source = codes.get(node.input[0]) if node.op_type in _DEQUANTIZE else None
        if source is None or source.input[0] in constants:
            continue
        if source.input[0] not in tensors:
            index = len(tensors)
            tensors.append(source.input[0])
            graph.input.append(onnx.helper.make_tensor_value_info(f"{_SWITCH}{index}", onnx.TensorProto.BOOL, []))
            graph.output.append(onnx.helper.make_tensor_value_info(f"{_SIZE}{index}", onnx.TensorProto.INT64, []))
            nodes.append(onnx.helper.make_node("Size", [source.input[0]], [f"{_SIZE}{index}"]))
        index, kept = tensors.index(source.input[0]), node.output[0]
        rounded = f"{kept}_quarkfast_rounded"
        node.output[0] = rounded
        nodes.append(onnx.helper.make_node("Where", [f"{_SWITCH}{index}", rounded, source.input[0]], [kept]))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return tensors


def _floats(outputs: Sequence[NDArray[np.generic]]) -> list[NDArray[np.generic] | None]:
    return [each if each.dtype.kind == "f" else None for each in outputs]


def _power(output: NDArray[np.generic] | None) -> float:
    return 0.0 if output is None else float(np.square(output, dtype=np.float64).sum())


def _difference(one: NDArray[np.generic] | None, other: NDArray[np.generic] | None) -> float:
    if one is None or other is None:
        return 0.0
    if one.size != other.size or not np.isfinite(other).all():
        return float("inf")
    # In one row: a target may take logits in another shape.
    return float(np.square(one.ravel().astype(np.float64) - other.ravel().astype(np.float64)).sum())
