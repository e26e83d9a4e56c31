"""Models in float16 or bfloat16 in float32, inputs and outputs too."""

from __future__ import annotations

from collections.abc import Iterator

from quarkfast.deferred import ir
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.remove_identities import remove_identities
from quarkfast.transforms.remove_pairs import remove_pairs

__all__ = ["widen_ends"]

_FLOAT, _HALF, _BFLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16


def widen_ends(model: ir.Model) -> bool:
    """Has everything in 16-bit floats be float32, in place; returns whether there was anything.

    Casts that do nothing then go, and so do pairs, of Casts or of Quark's nodes, that round float32 to such a type and
    back. Values of constants stay as they are; types are known beforehand and afterwards. Idempotent; error: what
    operators round to 16 bits no more.
    """
    before = {value.dtype for value in _values(model)}
    remove_pairs(model, floats_alone=True)
    for narrow in (_HALF, _BFLOAT16):
        change_float_type(model, narrow, _FLOAT, keep_ends=False)
    _drop_idle_casts(model)
    infer_types(model)
    return bool(before & {_HALF, _BFLOAT16})


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    yield from model.graph.initializers.values()
    for node in model.graph:
        yield from node.outputs


def _drop_idle_casts(model: ir.Model) -> None:
    """Removes Casts from float32 to float32."""
    for node in model.graph:
        value = node.inputs[0] if node.inputs else None
        if node.op_type == "Cast" and value is not None and value.dtype == _FLOAT == node.attributes.get_int("to"):
            node.op_type = "Identity"
            node.attributes.clear()
    remove_identities(model)
