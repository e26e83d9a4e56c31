"""Casts and round trips as fuzz targets: every pair of float types, with and without saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import quarkfast
from quarkfast import reference
from quarkfast.kernels.casts import _CODES, _named
from quarkfast.reference import small_floats

from .draw import Draw

SMALL_FLOATS = tuple(_CODES)
_SIXTEEN = ("f16", "bf16")


def _code(dtype: Any) -> str:
    return _CODES[_named(dtype, "fuzz")]


def _some(d: Draw, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Any bits of a small float."""
    return np.asarray(d.rng.integers(0, 1 << 8 * dtype.itemsize, shape, dtype=f"u{dtype.itemsize}")).view(dtype)


def _draw_cast(d: Draw) -> dict[str, Any]:
    shape, small = d.shape(), d.pick(SMALL_FLOATS)
    kind = d.pick(("down", "down", "up", "across"))
    x = d.floats(shape) if kind == "down" else _some(d, small, shape)
    target = {"down": small, "up": np.dtype(np.float32), "across": d.pick(SMALL_FLOATS)}[kind]
    if kind == "across" and target == small:
        target = np.dtype(np.float32)
    arguments = {"x": d.laid_out(x), "dtype": d.pick((target, str(target))), "saturate": d.chance(0.4)}
    if d.chance(0.4):
        arguments["out"] = d.output(shape, target)
    return arguments


def _draw_round(d: Draw) -> dict[str, Any]:
    shape, small = d.shape(), d.pick(SMALL_FLOATS)
    arguments = {"x": d.laid_out(d.floats(shape)), "dtype": d.pick((small, str(small))), "saturate": d.chance(0.4)}
    if d.chance(0.4):
        arguments["out"] = d.output(shape, np.float32)
    return arguments


def _widened(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype == np.float32:
        return x
    code = _code(x.dtype)
    return getattr(reference, f"cast_{code}_f32")(x) if code in _SIXTEEN else small_floats.decode(x, code)


def _narrowed(x: Any, code: str, saturate: bool) -> Any:
    if code not in _SIXTEEN:
        return small_floats.encode(x, code, saturate)
    if saturate:
        largest = np.float32(float(ml_dtypes.finfo({"f16": np.float16, "bf16": ml_dtypes.bfloat16}[code]).max))
        x = np.where(np.isnan(x), x, np.clip(x, -largest, largest))
    return getattr(reference, f"cast_f32_{code}")(x)


def _cast(x: Any, dtype: Any, saturate: Any = False, out: Any = None) -> Any:
    wide = _widened(x)
    return wide if _named(dtype, "fuzz") == np.float32 else _narrowed(wide, _code(dtype), bool(saturate))


def _rounded(x: Any, dtype: Any, saturate: Any = False, out: Any = None) -> Any:
    return _widened(_narrowed(x, _code(dtype), bool(saturate)))


#: Name: function, how to draw a right call, what it should answer.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "cast": (quarkfast.cast, _draw_cast, _cast),
    "round_trip": (quarkfast.round_trip, _draw_round, _rounded),
}
