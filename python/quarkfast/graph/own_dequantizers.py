"""DequantizeLinear of ONNX as our own operator, which gives the same bits and is compiled for every instruction set."""

from __future__ import annotations

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard

__all__ = ["use_own_dequantizers"]

_OPERATOR, _DOMAIN = "ExtendedDequantizeLinear", "com.amd.quark"
_CODES = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})

_OTHERS = frozenset({"block_size", "output_dtype"})


def use_own_dequantizers(model: ir.Model) -> int:
    """Makes every DequantizeLinear of the graph that can be one an ExtendedDequantizeLinear; returns how many.

    Without its optimizations ONNX Runtime dequantizes element by element. Codes of 8 and 16 bits and their distances
    from the zero point are exact in float32, so that both round the product alone. Scales must be known, of float32,
    finite and above 0, one or one for each index of an axis.
    """
    found = [node for node in model.graph if _may_be_own(node)]
    for node in found:
        axis = node.attributes.get_int("axis", 1)
        node.op_type, node.domain, node.version = _OPERATOR, _DOMAIN, None
        node.attributes.clear()
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
    if found:
        model.opset_imports.setdefault(_DOMAIN, 1)
    return len(found)


def _may_be_own(node: ir.Node) -> bool:
    if not is_standard(node) or node.op_type != "DequantizeLinear" or len(node.inputs) != 3:
        return False
    codes, scale, zero_point = node.inputs
    if zero_point is None or zero_point.dtype not in _CODES or zero_point.shape is None or codes is None:
        return False
    if not is_constant(scale) or scale is None or scale.is_graph_input() or scale.dtype != ir.DataType.FLOAT:
        return False
    steps = array_of(scale)
    if steps.ndim > 1 or tuple(zero_point.shape) != steps.shape or node.attributes.keys() & _OTHERS:
        return False
    return bool((np.isfinite(steps) & (steps > 0)).all())
