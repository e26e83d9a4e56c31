"""Values of a protobuf's constants, wherever they lie: in it, or in a file that it refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.external_data_helper import ExternalDataInfo

__all__ = ["read_constant", "replace_constant"]


def read_constant(tensor: onnx.TensorProto, folder: Path | None) -> NDArray[Any]:
    """Returns the values of a constant.

    Args:
        tensor: The constant.
        folder: Where the files are that its model refers to, or None.

    Example:
        >>> read_constant(onnx.numpy_helper.from_array(np.float32([1, 2]), "w"), None).tolist()
        [1.0, 2.0]
    """
    return np.asarray(onnx.numpy_helper.to_array(tensor, str(folder or "")))


def replace_constant(tensor: onnx.TensorProto, values: NDArray[Any], folder: Path | None) -> None:
    """Puts other values of the same shape and type in the place of a constant's own, in its file if it has one.

    A protobuf keeps the memory of what it held before, so that a large constant takes it once more each time.

    Args:
        tensor: The constant.
        values: What it is to be.
        folder: Where the files are that its model refers to, or None.

    Example:
        >>> tensor = onnx.numpy_helper.from_array(np.float32([1, 2]), "w")
        >>> replace_constant(tensor, np.float32([3, 4]), None)
        >>> read_constant(tensor, None).tolist()
        [3.0, 4.0]
    """
    replaced = onnx.numpy_helper.from_array(values, tensor.name)
    if folder is None or tensor.data_location != onnx.TensorProto.EXTERNAL:
        tensor.CopyFrom(replaced)
        return
    place = ExternalDataInfo(tensor)
    with (folder / place.location).open("r+b") as file:
        file.seek(place.offset or 0)
        file.write(replaced.raw_data)
