"""Dynamic quantization of rows to int8."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.kernels.arguments import F32, contiguous, output
from quarkfast.kernels.block_arguments import widened

__all__ = ["quantize_rows"]

_WHERE = "quantize_rows_f32_i8"


def quantize_rows(x: ArrayLike, *, out: NDArray[Any] | None = None) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantize each row to int8 by the largest magnitude of its own: dynamic activations, a scale for each token.

    Args:
        x: float32, float16 or bfloat16 array of rank 1 or more, shape ``[..., n]``.
        out: int8 array of the shape of ``x`` to write to.

    Returns:
        int8 codes of the shape of ``x``, and float32 scales of shape ``[..., 1]``, so that ``codes * scales`` are the
        values. A scale is the largest finite magnitude of the row / 127, at least 2^-126, the smallest normal float32.
        NaN becomes -128; infinities saturate.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: ``x`` has no axis.

    Source:
        docs/numerics.md, "Rows"; codes as of ONNX QuantizeLinear-21.

    Example:
        >>> import numpy as np
        >>> codes, scales = quantize_rows(np.float32([[1, -2, 0.5], [100, 0, -127]]))
        >>> codes
        array([[  64, -127,   32],
               [ 100,    0, -127]], dtype=int8)
        >>> scales[1]
        array([1.], dtype=float32)
    """
    array = contiguous(widened(x, _WHERE), _WHERE, F32)
    if not array.ndim:
        raise ValueError(f"{_WHERE}: x: expected an array of rank 1 or more, got a scalar")
    y = output(out, _WHERE, array.shape, np.dtype(np.int8))
    scales = np.empty((*array.shape[:-1], 1), F32)
    _core.quantize_rows_f32_i8(array, y, scales)
    return y, scales
