"""Dynamic quantization of rows to int8, slow and obvious."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.reference.linear import quantize_linear

__all__ = ["quantize_rows"]

Array = NDArray[Any]


def quantize_rows(x: Array) -> tuple[Array, Array]:
    """int8 codes of rows, and their scales."""
    magnitudes = np.where(np.isfinite(x), np.abs(np.asarray(x, np.float32)), np.float32(0))
    top = magnitudes.max(axis=-1, keepdims=True, initial=np.float32(0))
    scales: Array = np.maximum(top / np.float32(127), np.finfo(np.float32).tiny)
    each = np.broadcast_to(scales, x.shape)
    return quantize_linear(x, each, np.zeros(x.shape, np.int64), np.int8), scales
