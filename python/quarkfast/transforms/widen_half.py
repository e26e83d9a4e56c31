"""A model that computes in float16 becomes one that computes in float32, with the inputs and outputs it had."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.notes import add_note
from quarkfast.graph.operators import TYPE_KEEPERS
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.infer_types import infer_types

__all__ = ["WIDENED", "widen_half"]

WIDENED = "the model was float16: it computes in float32 now, and its inputs and outputs keep their types"

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT


def widen_half(model: ir.Model) -> bool:
    """Rewrites a float16 model to float32, in place; returns whether it was one.

    1. It is one if an operator of the standard computes in float16 (Casts and what moves values do not), in the model's
       own graph, and no operator of another domain reads or gives it.
    2. Initializers and constants of float16 become float32 of the same values; so do the types of tensors, and the
       types that attributes name.
    3. Graph inputs and outputs keep names and types; each of float16 gets a Cast behind or in front of it.

    Quantizers' operators take float32 scales, and their arithmetic is float32 on every target. Idempotent. Error:
    none in the values of constants; results are more precise by what float16 rounded between operators.
    """
    if not _may_be_half(model):
        return False
    infer_types(model)
    giving = [node for node in model.graph if any(value.dtype == _HALF for value in node.outputs)]
    reading = [node for node in model.graph if any(value is not None and value.dtype == _HALF for value in node.inputs)]
    if all(node.op_type in TYPE_KEEPERS for node in giving) or not all(map(is_standard, (*giving, *reading))):
        return False
    change_float_type(model, _HALF, _FLOAT, keep_ends=True)
    add_note(model, WIDENED)
    return True


def _may_be_half(model: ir.Model) -> bool:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    return any(value.dtype == _HALF for value in values) or any(map(_gives_half, model.graph))


def _gives_half(node: ir.Node) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to") == _HALF
