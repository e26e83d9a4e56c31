"""Constants that are not numbers are found before they spoil a scale."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import range_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["check_weights"]


Checked = Mapping[int, ir.TensorProtocol]
"""Tensors without NaN, by their identity."""


def check_weights(model: ir.Model, checked: Checked = MappingProxyType({})) -> Checked:
    """Makes sure that no float32 initializer holds a NaN, and returns what was looked at.

    Args:
        model: The model; not changed.
        checked: What an earlier call returned: tensors that are not read again.

    Raises:
        ModelError: If one does; the sentence names the tensor and how many of its values are NaN.
    """
    found = dict(checked)
    for value in (each for graph in graphs_of(model) for each in graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or id(tensor) in checked:
            continue
        seen = range_of(value)
        if seen.nan:
            raise ModelError(f"tensor {value.name!r}: expected numbers, got NaN in {seen.nan} of {seen.count} values")
        found[id(tensor)] = tensor
    return found
