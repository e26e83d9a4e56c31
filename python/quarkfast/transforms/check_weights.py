"""Constants that are not numbers are found before they spoil a scale."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.extremes import range_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["check_weights"]


def check_weights(model: ir.Model) -> None:
    """Makes sure that no float32 initializer holds a NaN.

    Raises:
        ModelError: If one does; the sentence names the tensor and how many of its values are NaN.
    """
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            if value.const_value is None or value.const_value.dtype != ir.DataType.FLOAT:
                continue
            found = range_of(value)
            if found.nan:
                raise ModelError(
                    f"tensor {value.name!r}: expected numbers, got NaN in {found.nan} of {found.count} values"
                )
