"""What onnx-ir declares optional and a prepared model always has: names, constants, inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

__all__ = ["array_of", "is_constant", "is_float", "is_standard", "name_of", "rank_of"]


def name_of(item: ir.Value | ir.Node | None) -> str:
    """Returns the name of a value or node; empty if it has none or is an input left out."""
    return "" if item is None else item.name or ""


def is_constant(value: ir.Value | None) -> bool:
    """Whether `value` is an initializer."""
    return value is not None and value.const_value is not None


def is_float(value: ir.Value | None) -> bool:
    """Whether `value` is known to hold float32 numbers."""
    return value is not None and value.dtype == ir.DataType.FLOAT


def is_standard(node: ir.Node) -> bool:
    """Whether the operator of `node` belongs to the ONNX standard."""
    return node.domain in ("", "ai.onnx")


def array_of(value: ir.Value | None) -> NDArray[Any]:
    """Returns the contents of an initializer, mapped from disk where it lies there.

    Raises:
        TypeError: If `value` is no initializer.
    """
    if value is None or value.const_value is None:
        raise TypeError(f"value {name_of(value)!r}: expected an initializer, got none")
    return np.asarray(value.const_value.numpy())


def rank_of(value: ir.Value | None) -> int:
    """Returns the number of dimensions of an initializer."""
    return 0 if value is None or value.const_value is None else len(value.const_value.shape)
