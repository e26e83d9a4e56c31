"""Casts between float32 and smaller floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from quarkfast import _core
from quarkfast.kernels.arguments import F32, as_array, as_dtype, contiguous, output

__all__ = ["cast", "round_trip"]

_CAST_TYPES = {np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}


def cast(x: ArrayLike, dtype: DTypeLike, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Cast float32 to float16 or bfloat16, or one of these to float32.

    Args:
        x: float32, float16 or bfloat16 array of any shape.
        dtype: The type to cast to; exactly one of ``x.dtype`` and ``dtype`` is float32.
        out: Array of ``dtype`` and the shape of ``x`` to write to.

    Returns:
        Array of ``dtype``: rounded half to even, overflow to infinity, subnormals kept, NaN stays NaN.

    Raises:
        TypeError: the pair of types is not among the above.

    Source:
        IEEE 754-2019 sections 4.3.1 and 5.4.2 (binary16); bfloat16 as ml_dtypes.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> cast(np.float32([1.00390625, 3.4e38]), ml_dtypes.bfloat16)
        array([1, inf], dtype=bfloat16)
    """
    array, target = as_array(x, "cast"), as_dtype(dtype, "cast")
    codes = {F32: "f32", **_CAST_TYPES}
    source_code, target_code = codes.get(array.dtype), codes.get(target)
    if source_code is None or target_code is None or (source_code == "f32") == (target_code == "f32"):
        raise TypeError(
            f"cast: expected float32 to or from {' or '.join(str(t) for t in _CAST_TYPES)}, "
            f"got {array.dtype} to {target}"
        )
    where = f"cast_{source_code}_{target_code}"
    array = contiguous(array, where, array.dtype)
    y = output(out, where, array.shape, target)
    getattr(_core, where)(array, y)
    return y


def round_trip(x: ArrayLike, dtype: DTypeLike, *, out: NDArray[Any] | None = None) -> NDArray[np.float32]:
    """Round float32 values to those of float16 or bfloat16 and keep them in float32.

    Args:
        x: float32 array of any shape.
        dtype: float16 or bfloat16.
        out: float32 array of the shape of ``x`` to write to; may be ``x``.

    Returns:
        ``cast(cast(x, dtype), float32)``, bit for bit, in one pass.

    Raises:
        TypeError: ``x`` is not float32 or ``dtype`` not among the above.

    Source:
        As :func:`cast`.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> round_trip(np.float32([1.2, 3.14159]), ml_dtypes.bfloat16)
        array([1.203125, 3.140625], dtype=float32)
    """
    target = as_dtype(dtype, "round_trip")
    code = _CAST_TYPES.get(target)
    if code is None:
        raise TypeError(f"round_trip: dtype: expected {' or '.join(str(t) for t in _CAST_TYPES)}, got {target}")
    where = f"round_f32_{code}"
    array = contiguous(x, where, F32)
    y = output(out, where, array.shape, F32)
    getattr(_core, where)(array, y)
    return y
