"""How far the outputs of a quantized model are from those of the float model, over samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also

__all__ = ["output_error"]


def output_error(
    reference: onnx.ModelProto,
    quantized: onnx.ModelProto,
    feeds: Iterable[Mapping[str, NDArray[Any]]],
    features: str = "",
) -> dict[str, float]:
    """Returns the ratio of signal to quantization noise of every float output in dB, over all samples at once.

    Both run with exact sums. Numbers that are not finite in the float model are left out; others make it -inf.

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
    names = [output.name for output in sessions[0].get_outputs()]
    powers = {name: np.zeros(2) for name in names}
    for feed in feeds:
        runs = [ort.run(session, feed) for session in sessions]
        for name, expected, got in zip(names, *runs, strict=True):
            if isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
                powers[name] += _powers(expected.astype(np.float64), got.astype(np.float64))
    return {name: _decibels(*power) for name, power in powers.items() if power.any()}


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
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal and np.isfinite(noise) else float("-inf")
