"""How far the outputs of a quantized model are from those of the float model, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also

__all__ = ["output_ratios"]

# Decibels at which a ratio ends on either side, so that no exact sample outweighs all others.
_MOST = 100.0


def output_ratios(
    reference: onnx.ModelProto,
    quantized: onnx.ModelProto,
    feeds: Iterable[Mapping[str, NDArray[Any]]],
    features: str = "",
) -> NDArray[np.float64]:
    """Returns the ratio of signal to quantization noise of each sample in dB, the mean over float outputs.

    Both run with exact sums. A ratio lies between -100 and 100 dB. Numbers that are not finite in the float model are
    left out; others make it -100 dB, and so does another shape. Outputs without signal are left out of the mean; a
    sample that has none is NaN.

    Args:
        reference: The float model.
        quantized: The quantized one, with the same outputs.
        feeds: Samples, by the names of the inputs.
        features: A tensor that counts as an output too, where a node of both models computes it: what the last layer
            reads tells more than the few numbers of a classifier, whose errors cancel by chance.

    Raises:
        ModelError: ONNX Runtime does not take a model or a sample.
    """
    sessions = [exact_session(judge_also(_copy(model), features)) for model in (reference, quantized)]
    found = []
    for feed in feeds:
        runs = [ort.run(session, feed) for session in sessions]
        powers = [
            _powers(expected.astype(np.float64), got.astype(np.float64))
            for expected, got in zip(*runs, strict=True)
            if isinstance(expected, np.ndarray) and expected.dtype.kind == "f"
        ]
        ratios = [_decibels(*power) for power in powers if power.any()]
        found.append(float(np.mean(ratios)) if ratios else np.nan)
    return np.array(found, np.float64)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _powers(expected: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the power of the signal and of the noise."""
    if expected.shape != got.shape:
        return np.array([0.0, np.inf])
    known = np.isfinite(expected)
    signal, noise = expected[known], expected[known] - got[known]
    return np.array([np.square(signal).sum(), np.square(noise).sum() if np.isfinite(noise).all() else np.inf])


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return _MOST
    ratio = 10 * np.log10(signal / noise) if signal and np.isfinite(noise) else -_MOST
    return float(np.clip(ratio, -_MOST, _MOST))
