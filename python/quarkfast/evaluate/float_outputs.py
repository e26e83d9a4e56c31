"""What a float model gives for a few samples, and how far a quantized one is from it: outputs and logits apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.common_shape import in_one_shape, is_float_array
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import Logits, judge_also, logits_of
from quarkfast.evaluate.metrics import sqnr
from quarkfast.evaluate.output_parts import OutputParts
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked

__all__ = ["FloatOutputs", "Ratios"]

# A ratio found on few samples is more than that of many as often as not: of four models with up to five levers each in
# 53 of 100 draws of 8 or 16 samples, and in 29 where both halves of the draw have to have it. One standard error less
# leaves 22 of them, two 8.
_STANDARD_ERRORS = 2

_Runs = list[dict[str, NDArray[np.generic]]]
_Change = Callable[[NDArray[Any]], NDArray[Any]]


def _unchanged(values: NDArray[Any]) -> NDArray[Any]:
    return values


class Ratios(NamedTuple):
    """Ratios of signal to quantization noise, in dB.

    Attributes:
        outputs: Of the worst output, or the worst part of one (`quarkfast.evaluate.output_parts`); infinite where there
            is none of floats.
        logits: Of the worst of what Softmax and Sigmoid make outputs of, up to where a Sigmoid is flat; None where they
            make none.
        doubt: How much less than the worst of these other samples may have: two standard errors of the one that is the
            least with them taken off. 0 for one sample, which says nothing about others.
    """

    outputs: float
    logits: float | None
    doubt: float

    @property
    def worst(self) -> float:
        """The worse of outputs and logits."""
        return self.outputs if self.logits is None else min(self.outputs, self.logits)


class FloatOutputs:
    """The outputs of a float model for samples, and its logits.

    What a ranking reads counts in place of its results (`quarkfast.evaluate.ranked_outputs`).
    """

    def __init__(self, reference: bytes, feeds: Sequence[Feed]) -> None:
        """Runs the float model.

        Args:
            reference: The float model.
            feeds: Arrays by the names of the inputs.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a feed.
        """
        self._feeds = feeds
        self._names, self._logits, model = _with_logits(reference)
        self._runs = _runs(ort.inference_session(model, ort.session_options(optimize=False, spinning=False)), feeds)
        self._parts = OutputParts(onnx.load_model_from_string(model), feeds, self._runs)

    def judge(self, quantized: bytes) -> Ratios:
        """Runs a quantized model with exact sums, and returns how close it is.

        A target may compute an output by other functions than the float model does: then its logits do not count.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a feed.
        """
        names, logits, model = _with_logits(quantized)
        found = _runs(exact_session(model), self._feeds)
        _core.release_memory()  # of the session
        given = self._runs[0].keys() if self._runs else ()
        pairs = zip(self._names, names, strict=True)
        outputs = [ratio for one, other in pairs if one in given for ratio in self._ratios(found, one, other)]
        behind = [
            ratio
            for name, one in self._logits.items()
            if name in logits
            for ratio in self._ratios(found, one.tensor, logits[name].tensor, one.telling)
        ]
        worst = min((each.value for each in (*outputs, *behind)), default=np.inf)
        surely = min((each.value - each.doubt for each in (*outputs, *behind)), default=np.inf)
        return Ratios(
            min((each.value for each in outputs), default=np.inf),
            min((each.value for each in behind), default=None),
            worst - surely if np.isfinite(worst) else 0.0,
        )

    def _ratios(self, found: _Runs, wanted: str, got: str, telling: _Change = _unchanged) -> list[_Ratio]:
        """Returns the ratio of each part of a tensor over all samples, by its names in both models."""
        pairs = [
            in_one_shape(telling(one[wanted]), telling(other[got]))
            for one, other in zip(self._runs, found, strict=True)
        ]
        if any(one.size != other.size for one, other in pairs):
            return [_Ratio(-np.inf)]
        parts = [
            [self._parts.split(sample, wanted, each) for sample, each in enumerate(side)]
            for side in zip(*pairs, strict=True)
        ]
        rows = [[[each.astype(np.float64) for each in part] for part in zip(*side, strict=True)] for side in parts]
        return [_ratio(one, other) for one, other in zip(*rows, strict=True)]


class _Ratio(NamedTuple):
    value: float
    doubt: float = 0.0


def _with_logits(data: bytes) -> tuple[list[str], dict[str, Logits], bytes]:
    """Returns what counts as the outputs of a model, output -> logits, and the model with these among its outputs."""
    model = onnx.load_model_from_string(data)
    given = [output.name for output in model.graph.output]
    names, logits = [output.name for output in judge_unranked(model).graph.output], logits_of(model)
    for each in logits.values():
        judge_also(model, each.tensor)
    return names, logits, model.SerializeToString() if logits or names != given else data


def _runs(session: Any, feeds: Sequence[Feed]) -> _Runs:
    """Returns every output of floats, by its name, for each feed; one of maps or of several tensors is none."""
    names = [output.name for output in session.get_outputs()]
    found = []
    for feed in feeds:
        run = dict(zip(names, ort.run(session, feed), strict=True))  # results keep a session's memory, copies do not
        found.append({name: np.array(each) for name, each in run.items() if is_float_array(each)})
    return found


def _ratio(wanted: Sequence[NDArray[np.float64]], found: Sequence[NDArray[np.float64]]) -> _Ratio:
    """Returns the ratio over samples; that of what is no number is the least there is."""
    value = sqnr(np.concatenate(wanted), np.concatenate(found))
    if not np.isfinite(value) or len(wanted) < 2:
        return _Ratio(-np.inf if np.isnan(value) else value)
    power = np.array([np.square(one).sum() for one in wanted])
    noise = np.array([np.square(one - other).sum() for one, other in zip(wanted, found, strict=True)])
    return _Ratio(value, _STANDARD_ERRORS * _standard_error(power, noise))


def _standard_error(power: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
    """Returns the standard error of ten times the logarithm of a ratio of sums, by its first derivatives.

    That of a ratio ``r`` of means over ``n`` samples is ``sqrt(n / (n - 1) sum (noise - r power)^2) / sum power``, and
    that of ``10 log10 r`` is ``10 / ln 10`` times its part of ``r``.
    """
    ratio, count = noise.sum() / power.sum(), len(power)
    error = np.sqrt(count / (count - 1) * np.square(noise - ratio * power).sum()) / power.sum()
    return float(10 / np.log(10) * error / ratio)
