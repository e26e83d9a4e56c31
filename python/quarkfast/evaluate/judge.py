"""The judge of quantized models: the noise of their outputs beside those of the float model, on a holdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.config import POLICY, Policy
from quarkfast.evaluate.activation_store import ActivationStore
from quarkfast.evaluate.common_shape import is_float_array
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also, logits_of
from quarkfast.evaluate.noise import OutputNoise, SignalAndNoise, powers_of
from quarkfast.evaluate.output_parts import OutputParts
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked

__all__ = ["Counted", "Judge", "hold_out"]

_Sample = TypeVar("_Sample")
_Change = Callable[[NDArray[Any]], NDArray[Any]]
_Key = tuple[str, str | int]
_Pair = tuple[NDArray[Any], NDArray[Any]]

# Bytes of outputs of the float model to keep in memory.
_BUDGET = 1 << 18

_NOTHING = np.zeros(0, np.float32)


def hold_out(samples: Sequence[_Sample], policy: Policy = POLICY) -> tuple[list[_Sample], list[_Sample]]:
    """Returns samples to calibrate with, and the holdout: the last ones, of few a quarter.

    Of fewer than four it is half of them, and one sample is both.

    Example:
        >>> hold_out(range(8)), hold_out([1])
        (([0, 1, 2, 3, 4, 5], [6, 7]), ([1], [1]))
    """
    count = min(policy.search_holdout, len(samples) // policy.search_one_in) or len(samples) // 2
    return list(samples[: len(samples) - count]), list(samples[len(samples) - count :] or samples)


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts as the outputs of a model.

    Attributes:
        unranked: Whether what a ranking reads counts in place of its results (`quarkfast.evaluate.ranked_outputs`).
        parts: Whether boxes and scores that are joined to one output count as two (`quarkfast.evaluate.output_parts`).
        logits: Whether what Softmax and Sigmoid read counts beside what they give.
        features: A tensor that counts as an output too, where a node of both models computes it: what the last layer
            reads tells more than the few numbers of a classifier, whose errors cancel by chance.
    """

    unranked: bool = True
    parts: bool = True
    logits: bool = False
    features: str = ""


class _JudgedTensor(NamedTuple):
    """A tensor that counts: its name, and what of its numbers tells."""

    tensor: str
    telling: _Change | None = None


class Judge:
    """What a float model gives for a holdout, computed once, beside which quantized models are put.

    All models run with exact sums. Outputs that are no arrays of floats do not count. A target may compute an output by
    other functions than the float model does: then its logits do not count.
    """

    def __init__(
        self,
        reference: bytes | onnx.ModelProto,
        holdout: Sequence[Feed],
        counted: Counted = Counted(),
        folder: Path | None = None,
    ) -> None:
        """Runs the float model.

        Args:
            reference: The float model.
            holdout: Samples that judge, by the names of the inputs.
            counted: What counts as its outputs.
            folder: Where the files are that the model refers to, or None where all its constants are in it.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a sample.
        """
        self._feeds, self._counted = holdout, counted
        model, self._columns = _count(reference, counted)
        self._outputs = ActivationStore(_BUDGET)
        for sample, run in enumerate(self._runs(model, folder)):
            for tensor, output in run.items():
                if is_float_array(output):  # results keep a session's memory, copies do not
                    self._outputs.put(tensor, sample, np.array(output))
        floats = [column.tensor for column in self._columns.values() if column.tensor in self._outputs]
        self._parts = OutputParts(model, holdout, floats if counted.parts else [], folder)

    def __enter__(self) -> Judge:
        """Returns the judge."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Drops the outputs."""
        self._outputs.__exit__(*error)

    @property
    def outputs(self) -> list[int]:
        """The places among all outputs of those that are arrays of floats."""
        columns = self._columns.items()
        return [int(at) for (kind, at), each in columns if kind == "output" and each.tensor in self._outputs]

    def noise(self, quantized: bytes | onnx.ModelProto, folder: Path | None = None) -> OutputNoise:
        """Runs a quantized model with the same outputs, whose files are in a folder.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a sample.
        """
        found, behind = list[list[SignalAndNoise]](), list[bool]()
        for sample, run in enumerate(self.pairs(quantized, folder)):
            parts = [(kind, each) for (kind, at), pair in run.items() for each in self._split(sample, (kind, at), pair)]
            found.append([powers_of(*pair) for _, pair in parts])
            behind = [kind == "logits" for kind, _ in parts]
        return OutputNoise.of(found, behind)

    def pairs(self, quantized: bytes | onnx.ModelProto, folder: Path | None = None) -> Iterator[dict[_Key, _Pair]]:
        """Yields for each sample what the float model gives and what a quantized one gives, for each tensor."""
        model, columns = _count(quantized, self._counted)
        shared = [key for key, each in self._columns.items() if each.tensor in self._outputs and key in columns]
        for sample, run in enumerate(self._runs(model, folder)):
            pairs = {}
            for key in shared:
                column = self._columns[key]
                both = self._outputs.get(column.tensor, sample), run[columns[key].tensor]
                pairs[key] = both if column.telling is None else (column.telling(both[0]), column.telling(both[1]))
            yield pairs

    def _split(self, sample: int, key: _Key, pair: _Pair) -> list[_Pair]:
        """Returns the parts of an output in both models; the whole and nothing where sizes differ."""
        tensor, (wanted, found) = self._columns[key].tensor, pair
        count = self._parts.count(tensor)
        if count == 1 or wanted.size != found.size:
            return [pair, *[(_NOTHING, _NOTHING)] * (count - 1)]
        sides = (self._parts.split(sample, tensor, each) for each in pair)
        return [(one, other) for one, other in zip(*sides, strict=True)]

    def _runs(self, model: onnx.ModelProto, folder: Path | None) -> Iterator[Mapping[str, Any]]:
        _core.release_memory()
        session = exact_session(model.SerializeToString(), folder)
        names = [output.name for output in session.get_outputs()]
        for feed in self._feeds:
            yield dict(zip(names, ort.run(session, feed), strict=True))
        del session
        _core.release_memory()


def _count(source: bytes | onnx.ModelProto, counted: Counted) -> tuple[onnx.ModelProto, dict[_Key, _JudgedTensor]]:
    """Returns a model whose outputs are what counts, and these by what they are in any form of the model."""
    model = onnx.ModelProto()
    if isinstance(source, bytes):
        model.ParseFromString(source)
    else:
        model.CopyFrom(source)
    if counted.unranked:
        judge_unranked(model)
    columns: dict[_Key, _JudgedTensor] = {
        ("output", place): _JudgedTensor(output.name) for place, output in enumerate(model.graph.output)
    }
    for name, each in logits_of(model).items() if counted.logits else ():
        judge_also(model, each.tensor)
        columns["logits", name] = _JudgedTensor(each.tensor, each.telling)
    before = len(model.graph.output)
    judge_also(model, counted.features)
    if len(model.graph.output) > before:
        columns["features", counted.features] = _JudgedTensor(counted.features)
    return model, columns
