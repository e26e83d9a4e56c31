"""Limits that a Relu or a Clip has set to the values of a tensor."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.operators import SELECTORS
from quarkfast.graph.walks import moved_from

__all__ = ["clip_limits", "limits_of"]


def limits_of(value: ir.Value) -> tuple[float | None, float | None]:
    """Returns the limits of the Relu or Clip that `value` comes from, seen through what moves values; None for none.

    Example:
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> '
        ...                           'g (float[1,2] x) => (float[2,1] y) { r = Relu (x) y = Transpose (r) }')
        >>> limits_of(model.graph.outputs[0])
        (0.0, None)
    """
    for source in moved_from(value, SELECTORS):
        node = source.producer()
        if node is None or not is_standard(node):
            continue
        if node.op_type == "Relu":
            return 0.0, None
        if node.op_type == "Clip":
            return clip_limits(node) or (None, None)
    return None, None


def clip_limits(node: ir.Node) -> tuple[float | None, float | None] | None:
    """Returns the limits of a Clip of operator set 11 or newer; None where they are not known beforehand."""
    given = [*node.inputs[1:3], None, None][:2]
    if any(value is not None and (not is_constant(value) or value.is_graph_input()) for value in given):
        return None
    low, high = (None if value is None else float(array_of(value).reshape(())) for value in given)
    return low, high
