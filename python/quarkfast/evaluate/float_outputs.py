"""What a float model gives for a few samples, and how far a quantized one is from it: outputs and logits apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also, logits_of
from quarkfast.evaluate.metrics import sqnr
from quarkfast.evaluate.partial_model import Feed

__all__ = ["FloatOutputs", "Ratios"]

_Rows = dict[str, NDArray[np.float64]]


class Ratios(NamedTuple):
    """Ratios of signal to quantization noise, in dB.

    Attributes:
        outputs: Of the worst output; infinite where there is none of floats.
        logits: Of the worst of what Softmax and Sigmoid make outputs of; None where they make none.
    """

    outputs: float
    logits: float | None


class FloatOutputs:
    """The outputs of a float model for samples, and its logits."""

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
        self._wanted = _runs(ort.inference_session(model, ort.session_options(optimize=False)), feeds)

    def judge(self, quantized: bytes) -> Ratios:
        """Runs a quantized model with exact sums, and returns how close it is.

        A target may compute an output by other functions than the float model does: then its logits do not count.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a feed.
        """
        _, logits, model = _with_logits(quantized)
        found, wanted = _runs(exact_session(model), self._feeds), self._wanted
        outputs = [_ratio(wanted[name], found[name]) for name in self._names if name in wanted]
        behind = [_ratio(wanted[one], found[logits[name]]) for name, one in self._logits.items() if name in logits]
        return Ratios(min(outputs, default=np.inf), min(behind, default=None))


def _with_logits(data: bytes) -> tuple[list[str], dict[str, str], bytes]:
    """Returns the outputs of a model, output -> logits, and the model with these among its outputs."""
    model = onnx.load_model_from_string(data)
    names, logits = [output.name for output in model.graph.output], logits_of(model)
    for name in logits.values():
        judge_also(model, name)
    return names, logits, model.SerializeToString() if logits else data


def _runs(session: Any, feeds: Sequence[Feed]) -> _Rows:
    """Returns every output of floats, over all feeds, in one row."""
    names = [output.name for output in session.get_outputs()]
    runs = [ort.run(session, feed) for feed in feeds]
    return {
        name: np.concatenate([np.asarray(run[index], np.float64).ravel() for run in runs])
        for index, name in enumerate(names)
        if runs[0][index].dtype.kind == "f"
    }


def _ratio(wanted: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Returns the ratio; that of outputs of another size, and of what is no number, is the least there is."""
    value = sqnr(wanted, found) if wanted.shape == found.shape else -np.inf
    return -np.inf if np.isnan(value) else value
