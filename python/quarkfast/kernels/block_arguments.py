"""What the functions of all block formats share: checks, shapes and the calls themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.errors import did_you_mean, shown
from quarkfast.kernels.arguments import F32, as_array, as_integer, contiguous, float_remedy, laid_out, output
from quarkfast.kernels.casts import cast

__all__ = ["ROUNDINGS", "Format", "choice", "dequantize", "fake_quantize", "quantize", "rounding_mode", "widened"]

Format = _core.Bfp | _core.BfpPrime | _core.Mx

#: What happens half way between two codes; the numbers are those of Quark's attribute ``rounding_mode``.
ROUNDINGS = {"half_away": 0, "half_up": 1, "half_even": 2}

_SUFFIXES = {F32: "f32", np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}


def rounding_mode(where: str, rounding: str) -> int:
    """Return the number of a rounding."""
    return ROUNDINGS[choice(where, "rounding", rounding, ROUNDINGS)]


def choice(where: str, argument: str, given: str, known: Iterable[str]) -> str:
    """Return what was given after checking that it is known."""
    if not isinstance(given, str) or given not in known:
        raise ValueError(
            f"{where}: {argument}: expected one of {', '.join(known)}, "
            f"got {shown(given)}{did_you_mean(str(given), known)}"
        )
    return given


def _axis(where: str, axis: int, rank: int) -> int:
    axis = as_integer(axis, where, "axis")
    if not -rank <= axis < rank:
        raise ValueError(f"{where}: axis: expected an axis of a tensor of rank {rank}, got {axis}")
    return axis % rank


def _dims(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def widened(x: ArrayLike, where: str) -> NDArray[Any]:
    """Return x as float32 where it is a float of 16 bits, exactly; else as it is."""
    array = as_array(x, where)
    return cast(array, F32) if array.dtype != F32 and array.dtype in _SUFFIXES else array


def fake_quantize(family: str, x: ArrayLike, axis: int, form: Format, out: NDArray[Any] | None) -> NDArray[Any]:
    """Run ``fake_quantize_<family>_<type of x>``."""
    array = as_array(x, f"fake_quantize_{family}")
    suffix = _SUFFIXES.get(array.dtype)
    if suffix is None:
        names = ", ".join(str(dtype) for dtype in _SUFFIXES)
        remedy = float_remedy(array.dtype)
        raise TypeError(f"fake_quantize_{family}: x: expected a dtype among {names}, got {array.dtype}{remedy}")
    where = f"fake_quantize_{family}_{suffix}"
    array = laid_out(array)
    dims = _dims(array.shape, _axis(where, axis, array.ndim))
    y = output(out, where, array.shape, array.dtype)
    getattr(_core, where)(array, y, dims, form)
    return y


def quantize(
    family: str, x: ArrayLike, axis: int, block_size: int, form: Format, out: NDArray[Any] | None
) -> NDArray[np.uint8]:
    """Run ``quantize_<family>_f32``; 16-bit floats are widened first, exactly."""
    where = f"quantize_{family}_f32"
    array = contiguous(widened(x, where), where, F32)
    axis = _axis(where, axis, array.ndim)
    shape = (*array.shape[:axis], *array.shape[axis + 1 :], -(-array.shape[axis] // block_size), form.record_bytes)
    y = output(out, where, shape, np.dtype(np.uint8))
    getattr(_core, where)(array, y, _dims(array.shape, axis), form)
    return y


def dequantize(
    family: str, records: ArrayLike, length: int, axis: int, block_size: int, form: Format, out: NDArray[Any] | None
) -> NDArray[np.float32]:
    """Run ``dequantize_<family>_f32``."""
    where = f"dequantize_{family}_f32"
    array = contiguous(records, where, np.dtype(np.uint8))
    length = as_integer(length, where, "length")
    if length < 0:
        raise ValueError(f"{where}: length: expected 0 or a positive integer, got {length}")
    expected = (-(-length // block_size), form.record_bytes)
    if array.shape[-2:] != expected:
        raise ValueError(
            f"{where}: x: expected records of shape (..., {expected[0]}, {expected[1]}) for length {length}, "
            f"got {array.shape}"
        )
    axis = _axis(where, axis, array.ndim - 1)
    shape = (*array.shape[:axis], length, *array.shape[axis:-2])
    y = output(out, where, shape, F32)
    getattr(_core, where)(array, y, _dims(shape, axis), form)
    return y
