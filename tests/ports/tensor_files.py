"""Tensors in files that the programs of tests/cpp read and write: type, rank, sizes, all int64, and the bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

Array = NDArray[Any]


def write(path: Path, array: Array) -> None:
    """Writes an array."""
    path.write_bytes(content(array))


def content(array: Array) -> bytes:
    """Returns what the file of an array holds."""
    head = [helper.np_dtype_to_tensor_dtype(array.dtype), array.ndim, *array.shape]
    return np.array(head, np.int64).tobytes() + np.ascontiguousarray(array).tobytes()
