"""How far the outputs of a quantized model are from those of the float model, sample by sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.common_shape import in_one_shape
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also
from quarkfast.evaluate.output_parts import OutputParts

__all__ = ["output_ratios"]

# Decibels at which a ratio ends on either side, so that no exact sample outweighs all others.
_MOST = 100.0


def output_ratios(
    reference: onnx.ModelProto,
    quantized: onnx.ModelProto,
    feeds: Sequence[Mapping[str, NDArray[Any]]],
    features: str = "",
) -> NDArray[np.float64]:
    """Returns the ratio of signal to quantization noise of each sample in dB, the mean over float outputs.

    Boxes and scores that are joined to one output count as two (`quarkfast.evaluate.output_parts`). Both run with
    exact sums. A ratio lies between -100 and 100 dB. Numbers that are not finite in the float model are left out;
    others make it -100 dB, and so does another shape. Outputs without signal are left out of the mean; a sample
    that has none is NaN.

    Args:
        reference: The float model.
        quantized: The quantized one, with the same outputs.
        feeds: Samples, by the names of the inputs.
        features: A tensor that counts as an output too, where a node of both models computes it: what the last layer
            reads tells more than the few numbers of a classifier, whose errors cancel by chance.

    Raises:
        ModelError: ONNX Runtime does not take a model or a sample.
    """
    names = [output.name for output in judge_also(_copy(reference), features).graph.output]
    # It runs a part of the model itself, so before the sessions are open.
    parts = OutputParts(reference, [dict(each) for each in feeds], [dict.fromkeys(names)])
    _core.release_memory()
    sessions = [exact_session(judge_also(_copy(model), features)) for model in (reference, quantized)]
    found = []
    for sample, feed in enumerate(feeds):
        wanted, got = (dict(zip(names, ort.run(session, feed), strict=True)) for session in sessions)
        pairs = [pair for name in names if _is_float(wanted[name]) for pair in _parts(parts, sample, name, wanted, got)]
        powers = [_powers(expected.astype(np.float64), given.astype(np.float64)) for expected, given in pairs]
        ratios = [_decibels(*power) for power in powers if power.any()]
        found.append(float(np.mean(ratios)) if ratios else np.nan)
    del sessions
    _core.release_memory()
    return np.array(found, np.float64)


def _is_float(output: object) -> bool:
    return isinstance(output, np.ndarray) and output.dtype.kind == "f"


def _parts(
    parts: OutputParts, sample: int, name: str, wanted: Mapping[str, Any], got: Mapping[str, Any]
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Returns the parts of an output, in both models; the whole where shapes differ."""
    if wanted[name].shape != got[name].shape:
        return [in_one_shape(wanted[name], got[name])]
    split = (parts.split(sample, name, each[name]) for each in (wanted, got))
    return list(zip(*split, strict=True))


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
