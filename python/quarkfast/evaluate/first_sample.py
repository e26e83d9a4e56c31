"""How good a quantized model's outputs are on one sample, against the float model's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.errors import ModelError
from quarkfast.evaluate.common_shape import in_one_shape, is_float_array
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked

__all__ = ["check_default_session", "output_sqnr"]


def output_sqnr(
    reference: bytes | Path, quantized: bytes | Path, feed: Feed, *, unranked: bool = False
) -> tuple[tuple[str, float], ...]:
    """Returns the ratio of signal to quantization noise of every float output in dB, the worst first.

    Both models run as they stand, without ONNX Runtime's optimizations: sums are exact, on every processor. Numbers
    that are not finite count where they are in one output and not in the other: the ratio is -inf. Where shapes differ,
    what one has not is zero in it (`quarkfast.evaluate.common_shape`).

    Args:
        reference: The float model.
        quantized: The quantized one.
        feed: Arrays by the names of their inputs.
        unranked: Whether what a ranking reads counts in place of its results (`quarkfast.evaluate.ranked_outputs`); the
            names are those in the float model.

    Raises:
        ModelError: ONNX Runtime does not take a model or the feed.
    """
    runs = [_run(model, feed, unranked) for model in (reference, quantized)]
    _core.release_memory()
    found = [
        (name, _ratio(one, other))
        for (name, one), (_, other) in zip(*runs, strict=True)
        if is_float_array(one) and one.size
    ]
    return tuple(sorted(found, key=lambda item: item[1]))


def check_default_session(reference: bytes | Path, quantized: bytes) -> str | None:
    """Makes sure that ONNX Runtime opens a model with all its optimizations, as it does where nobody says otherwise.

    Args:
        reference: The float model.
        quantized: The quantized one.

    Returns:
        Why it opens neither of them; None where it opens the quantized one.

    Raises:
        ModelError: It opens the float model alone.
    """
    try:
        _open_optimized(quantized)
    except ModelError as error:
        cause = str(error).rpartition("onnxruntime rejects it: ")[2]
        try:
            _open_optimized(reference)
        except ModelError:
            return cause
        raise ModelError(
            f"quantize: expected a result that a default session of onnxruntime {ort.runtime_version()} opens, got one "
            f"that it rejects: {cause}; exclude the nodes that it names, or take another version"
        ) from error
    return None


def _open_optimized(model: bytes | Path) -> None:
    ort.inference_session(model, ort.session_options(threads=1, spinning=False, arena=False))


def _run(model: bytes | Path, feed: Feed, unranked: bool) -> Iterator[tuple[str, Any]]:
    # One run is no reason to keep memory for the next: superresolution held 174 MB with an arena and holds 124 without.
    options = ort.session_options(optimize=False, spinning=False, arena=False)
    _core.release_memory()
    folder = model.parent if unranked and isinstance(model, Path) else None
    session = ort.inference_session(_unranked(model) if unranked else model, options, folder=folder)
    names = [output.name for output in session.get_outputs()]
    return zip(names, ort.run(session, feed), strict=True)


def _unranked(model: bytes | Path) -> bytes:
    if isinstance(model, bytes):
        proto = onnx.load_model_from_string(model)
    else:
        proto = onnx.load(model, load_external_data=False)
    data: bytes = judge_unranked(proto).SerializeToString()
    return data


def _ratio(reference: NDArray[Any], output: NDArray[Any]) -> float:
    reference, output = in_one_shape(reference, output)
    if reference.shape != output.shape:
        return float("-inf")
    one, other = reference.astype(np.float64), output.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True) or not np.isfinite(other[finite]).all():
        return float("-inf")
    signal, noise = np.square(one[finite]).sum(), np.square(one[finite] - other[finite]).sum()
    if not noise:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")
