"""The oldest operator set that can turn narrow weights back."""

from __future__ import annotations

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["lowest_opset"]

_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def lowest_opset(model: ir.Model, scheme: Scheme) -> int:
    """Returns the oldest operator set that carries `scheme` for the weights of `model`.

    MatMulNBits is no standard operator and needs none. Cast knows bfloat16 from 13 on; DequantizeLinear knows channels
    from 13, float16 from 19, groups and 4-bit codes from 21.
    """
    if scheme.encoding == "nbits":
        return 10
    if scheme.encoding == "cast":
        return 13
    if scheme.weight.granularity == "group" or qtype(scheme.weight.dtype).stored_bits == 4:
        return 21
    if any(value.dtype in _HALVES for graph in graphs_of(model) for value in graph.initializers.values()):
        return 19
    return 13 if scheme.weight.granularity == "channel" else 10
