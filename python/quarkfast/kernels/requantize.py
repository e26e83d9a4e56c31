"""Requantization of 32-bit sums to 8-bit codes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.errors import shown
from quarkfast.formats.scalar import ScalarFormat, integer_type
from quarkfast.kernels.arguments import as_array, as_integer, converted

__all__ = ["HalfRounding", "requantize_linear", "requantize_shift"]

HalfRounding = Literal["half_up", "half_even"]

_I32 = np.dtype(np.int32)


def requantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.int8,
    axis: int = 1,
    qmin: int | None = None,
    qmax: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Turn 32-bit sums into 8-bit codes: ``saturate(round_half_to_even(float32(x) * scale) + zero_point)``.

    Args:
        x: int32 array of any shape: sums of products of codes.
        scale: ``x_scale * w_scale / y_scale``, float32, finite and > 0: one, or ``[x.shape[axis]]``.
        zero_point: Codes of the shape of ``scale``; zeros when absent.
        dtype: int8 or uint8.
        axis: Axis of channels; negative counts from the end.
        qmin: Lowest code, default the type's lowest.
        qmax: Highest code, default the type's highest.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Codes of ``dtype`` with the shape of ``x``. Sums beyond 2^24 are rounded to float32 first.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, range, scale or zero point do not fit.

    Source:
        onnxruntime's QLinearConv and QLinearMatMul.

    Example:
        >>> import numpy as np
        >>> requantize_linear(np.int32([100, 150, -100000]), 0.25)
        array([  25,   38, -128], dtype=int8)
    """
    row = _byte_type(dtype, "requantize_linear")
    where = f"requantize_linear_i32_{row.code}"
    codes = _range(where, qmin, qmax)
    run, array = getattr(_core, where), as_array(x, where)
    y = run(array, out, scale, zero_point, axis, 0, *codes)
    if y is None:
        y = run(array, out, *converted(where, row.dtype, scale, zero_point, axis, 0), *codes)
    return y  # type: ignore[no-any-return]


def requantize_shift(
    x: ArrayLike,
    shift: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: DTypeLike = np.int8,
    axis: int = 1,
    rounding: HalfRounding = "half_up",
    qmin: int | None = None,
    qmax: int | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Turn 32-bit sums into 8-bit codes as an NPU does: ``saturate(round(x / 2**shift) + zero_point)``, exactly.

    Args:
        x: int32 array of any shape.
        shift: Integers in [0, 31]: one, or ``[x.shape[axis]]``.
        zero_point: Codes of the shape of ``shift``; zeros when absent.
        dtype: int8 or uint8.
        axis: Axis of channels; negative counts from the end.
        rounding: What lies halfway goes towards plus infinity (``"half_up"``, an addition before the shift) or to even.
        qmin: Lowest code, default the type's lowest.
        qmax: Highest code, default the type's highest.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Codes of ``dtype`` with the shape of ``x``.

    Raises:
        TypeError: a dtype is not among the above.
        ValueError: shapes, axis, range, shift, rounding or zero point do not fit.

    Source:
        The shift of a power-of-two scale: ``shift = pos_x + pos_w - pos_y``, Quark's ``shift_cut``.

    Example:
        >>> import numpy as np
        >>> x = np.int32([24, 40, -24, 100000])
        >>> requantize_shift(x, 4), requantize_shift(x, 4, rounding="half_even")
        (array([  2,   3,  -1, 127], dtype=int8), array([  2,   2,  -2, 127], dtype=int8))
    """
    row = _byte_type(dtype, "requantize_shift")
    if not isinstance(rounding, str) or rounding not in ("half_up", "half_even"):
        raise ValueError(f"requantize_shift: rounding: expected 'half_up' or 'half_even', got {shown(rounding)}")
    where = f"requantize_shift_{rounding}_i32_{row.code}"
    shifts = as_array(shift, where, "shift")
    if shifts.dtype.kind not in "iu":
        raise TypeError(f"{where}: shift: expected integers, got dtype {shifts.dtype}")
    if shifts.size and not (int(shifts.min()) >= 0 and int(shifts.max()) <= 31):
        raise ValueError(f"{where}: shift: expected values in [0, 31], got [{shifts.min()}, {shifts.max()}]")
    given = converted(where, row.dtype, shifts.astype(_I32), zero_point, axis, 0, _I32)
    codes = _range(where, qmin, qmax)
    return getattr(_core, where)(as_array(x, where), out, *given, *codes)  # type: ignore[no-any-return]


def _byte_type(dtype: DTypeLike, where: str) -> ScalarFormat:
    row = integer_type(dtype)
    if row.bits != 8:
        raise TypeError(f"{where}: dtype: expected int8 or uint8, got {row.name}")
    return row


def _range(where: str, qmin: int | None, qmax: int | None) -> tuple[int | None, int | None]:
    low = None if qmin is None else as_integer(qmin, where, "qmin")
    high = None if qmax is None else as_integer(qmax, where, "qmax")
    return low, high
