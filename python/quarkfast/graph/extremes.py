"""What the values of a constant reach, found piece by piece."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import tensor_of
from quarkfast.graph.chunked_io import row_pieces
from quarkfast.kernels import Range, reduce_range

__all__ = ["range_of"]


def range_of(value: ir.Value | None) -> Range:
    """Returns the range of an initializer of floats; of one outside memory no more than a piece is read at a time.

    Raises:
        TypeError: If `value` is no initializer, or one of another type.
    """
    tensor = tensor_of(value)
    if isinstance(tensor, ir.Tensor | ir.TensorProtoTensor):
        return reduce_range(tensor.numpy())
    pieces = row_pieces(tensor)
    found = reduce_range(next(pieces))
    for piece in pieces:
        found = _merged(found, reduce_range(piece))
    return found


def _merged(one: Range, other: Range) -> Range:
    return Range(
        min(one.min, other.min),
        max(one.max, other.max),
        one.count + other.count,
        one.nan + other.nan,
        one.pos_inf + other.pos_inf,
        one.neg_inf + other.neg_inf,
        one.zero + other.zero,
        one.subnormal + other.subnormal,
    )
