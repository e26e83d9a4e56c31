"""The oldest operator set that can turn narrow weights back."""

from __future__ import annotations

from quarkfast.config import Scheme, TensorSpec, stored_forms
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.quantization.weight_only import reads_table

__all__ = ["lowest_opset"]

_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def lowest_opset(model: ir.Model, scheme: Scheme) -> int:
    """Returns the oldest operator set that carries `scheme` for the weights of `model`.

    MatMulNBits is no standard operator and needs none, but tables beside it have codes for each column. Cast knows
    bfloat16 from 13 on; DequantizeLinear knows channels from 13, float16 from 19, groups and 4-bit codes from 21.
    """
    packed = scheme.encoding == "nbits"
    halves = any(value.dtype in _HALVES for graph in graphs_of(model) for value in graph.initializers.values())
    tables = packed and not scheme.strict and any(map(reads_table, nodes_of(model.graph)))
    columns = TensorSpec("int8", granularity="channel")
    beside = _oldest(columns, False, halves) if tables else 10
    return max(beside, *(_oldest(spec, packed, halves) for spec in stored_forms(scheme)))


def _oldest(spec: TensorSpec, packed: bool, halves: bool) -> int:
    """Returns the oldest operator set for one form of a weight; `halves` says that weights may be 16-bit floats."""
    if spec.stays_float:
        return 10
    if not spec.format.is_integer:
        return 13
    if packed:
        return 10
    if spec.granularity == "group" or qtype(spec.dtype).stored_bits == 4:
        return 21
    if halves:
        return 19
    return 13 if spec.granularity == "channel" else 10
