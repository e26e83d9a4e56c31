"""Q/DQ pairs of a model: removed, or written with other operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread, set_constant
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import is_dequantize, is_pair
from quarkfast.transforms.clean import remove_identities

__all__ = ["DOMAINS", "change_domain", "remove_pairs", "to_custom_pairs", "to_standard_pairs"]

_QUARK, _VAI, _RUNTIME = "com.amd.quark", "com.vai.quantize", "com.microsoft"

# Name in com.amd.quark -> name in com.vai.quantize.
_OLDER: Mapping[str, str] = MappingProxyType(
    {
        "ExtendedQuantizeLinear": "VitisQuantizeLinear",
        "ExtendedDequantizeLinear": "VitisDequantizeLinear",
        "ExtendedInstanceNormalization": "VitisInstanceNormalization",
        "ExtendedLSTM": "VitisLSTM",
        "BFPQuantizeDequantize": "BFPFixNeuron",
        "MXQuantizeDequantize": "MXFixNeuron",
    }
)

DOMAINS = (_QUARK, _VAI)
"""Domains of Quark's operators."""

_STANDARD = {"QuantizeLinear": "ExtendedQuantizeLinear", "DequantizeLinear": "ExtendedDequantizeLinear"}
_CUSTOM = {custom: plain for plain, name in _STANDARD.items() for custom in (name, _OLDER[name])}

_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_WORDS = frozenset({ir.DataType.INT16, ir.DataType.UINT16})

# Defaults of the attribute.
_CUSTOM_AXIS, _STANDARD_AXIS = 0, 1

# What Quark's have no attribute for.
_NO_CUSTOM = frozenset({"block_size", "output_dtype"})

# The operator sets from which ONNX's own pairs have an axis, and 16 bits.
_CHANNELS, _SIXTEEN_BITS = 13, 21


def change_domain(model: ir.Model, domain: str) -> int:
    """Gives Quark's operators the names that they have in `domain`, in place; returns how many changed.

    Operators, attributes and values are the same: Quark registers each under both names.
    """
    other = _OLDER if domain == _VAI else {older: name for name, older in _OLDER.items()}
    changed = 0
    for node in nodes_of(model.graph):
        if node.domain in DOMAINS and node.domain != domain and node.op_type in other:
            node.op_type, node.domain = other[node.op_type], domain
            changed += 1
    _import_what_is_used(model)
    return changed


def to_standard_pairs(model: ir.Model) -> tuple[int, int]:
    """Makes Quark's Q/DQ nodes of integers those of ONNX, in place; returns how many, and how many had to stay.

    1. Codes of 8 bits become ONNX's own, and those of 16 bits from operator set 21 on; below, those of ONNX Runtime
       (``com.microsoft``). Codes of 32 bits are dequantized by ONNX's, where the zero point is 0.
    2. Other types (32 bits to quantize, float16, bfloat16), and scales that are no constants, stay.

    Values are the same, as tests on every code show.
    """
    version, changed, stayed = opset_version(model), 0, 0
    for node in tuple(nodes_of(model.graph)):
        if node.domain not in DOMAINS or node.op_type not in _CUSTOM:
            continue
        domain = _domain_of(node, version)
        if domain is None:
            stayed += 1
            continue
        node.op_type, node.domain = _CUSTOM[node.op_type], domain
        node.attributes["axis"] = ir.AttrInt64("axis", node.attributes.get_int("axis", _CUSTOM_AXIS))
        changed += 1
    _import_what_is_used(model)
    return changed, stayed


def to_custom_pairs(model: ir.Model) -> tuple[int, int]:
    """Makes Q/DQ nodes of ONNX and ONNX Runtime those of Quark, in place; returns how many, and how many had to stay.

    Those with scales by block or another type of output, without a zero point, or with codes of other than 8 and 16
    bits (32 to dequantize) stay, and so do those whose scales are no constants of float32, finite and above 0: Quark's
    operators refuse such.
    """
    changed, stayed = 0, 0
    for node in tuple(nodes_of(model.graph)):
        if node.domain not in ("", "ai.onnx", _RUNTIME) or node.op_type not in _STANDARD:
            continue
        if not _may_be_custom(node):
            stayed += 1
            continue
        axis = node.attributes.get_int("axis", _STANDARD_AXIS)
        node.attributes.clear()
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        node.op_type, node.domain = _STANDARD[node.op_type], _QUARK
        changed += 1
    _import_what_is_used(model)
    return changed, stayed


def _may_be_custom(node: ir.Node) -> bool:
    zero, scale = node.inputs[2] if len(node.inputs) > 2 else None, node.inputs[1]
    if zero is None or node.attributes.keys() & _NO_CUSTOM or not _is_proper(scale):
        return False
    return zero.dtype in _BYTES | _WORDS or (zero.dtype == ir.DataType.INT32 and node.op_type == "DequantizeLinear")


def _is_proper(scale: ir.Value | None) -> bool:
    if scale is None or scale.dtype != ir.DataType.FLOAT or not is_constant(scale):
        return False
    values = array_of(scale)
    return bool(np.isfinite(values).all() and (values > 0).all())


def _domain_of(node: ir.Node, version: int) -> str | None:
    """Returns the domain whose pairs can stand for `node`, or None."""
    zero, scale = node.inputs[2] if len(node.inputs) > 2 else None, node.inputs[1]
    if zero is None or scale is None or not is_constant(scale):
        return None
    by_channel = scale.shape is not None and len(scale.shape) > 0
    if zero.dtype in _BYTES or (zero.dtype == ir.DataType.INT32 and "Dequantize" in node.op_type):
        return "" if not by_channel or version >= _CHANNELS else None
    if zero.dtype in _WORDS:
        return "" if version >= _SIXTEEN_BITS else _RUNTIME
    return None


def _import_what_is_used(model: ir.Model) -> None:
    used = {node.domain for node in nodes_of(model.graph)}
    for domain in (*DOMAINS, _RUNTIME):
        if domain in used:
            model.opset_imports.setdefault(domain, 1)
    for domain in DOMAINS:
        if domain not in used:
            model.opset_imports.pop(domain, None)


# One node that rounds floats to floats.
_ROUNDERS = frozenset({"BFPQuantizeDequantize", "MXQuantizeDequantize", "BFPFixNeuron", "MXFixNeuron", "FixNeuron"})
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN,
                     ir.DataType.FLOAT8E5M2})  # fmt: skip


def remove_pairs(model: ir.Model, *, keep_inputs: bool = False, floats_alone: bool = False) -> bool:
    """Removes what rounds activations and makes constants of codes floats, in place; returns whether there was any.

    1. QuantizeLinear with DequantizeLinear behind it, of ONNX, ONNX Runtime or Quark, Quark's nodes of block formats,
       and two Casts from float32 to a narrower float and back give way to what they read.
    2. A DequantizeLinear of a constant becomes that constant in float32: ``(q - z) * s``, by tensor, channel or block.
    3. A Cast of a constant in a narrower float becomes that constant in float32.
    4. With `keep_inputs` what rounds a graph input stays; with `floats_alone` what rounds to integers and blocks does.
    5. Pairs with scales that are no constants, and codes that something else reads, stay.

    Idempotent; graph inputs and outputs keep names and types. Error: that of the rounding of constants stays in them,
    but for constants that a node of a block format rounds, which are in the file as they were.
    """
    builder, graph, removed = GraphBuilder(model), model.graph, False
    for node in tuple(graph):
        if floats_alone and not _is_of_floats(node):
            continue
        if node.op_type not in _ROUNDERS and is_constant(node.inputs[0] if node.inputs else None):
            removed |= _decode(builder, node) if is_dequantize(node) else _widen(node)
        elif node.op_type in _ROUNDERS or _ends_casts(node) or is_dequantize(node):
            source = node.inputs[0] if node.op_type in _ROUNDERS else _in_front(node)
            if source is not None and not (keep_inputs and source.is_graph_input()):
                removed |= _replace(node, source)
    remove_identities(model)
    _drop_unread_nodes(graph)
    drop_unread(graph)
    return removed


def _is_of_floats(node: ir.Node) -> bool:
    """Whether `node` is a Cast, or turns narrow floats into float32."""
    if not is_dequantize(node):
        return node.op_type == "Cast"
    told = [each.dtype for each in node.inputs[::2] if each is not None]  # a custom operator tells nothing of codes
    return any(dtype in _FLOATS for dtype in told)


def _in_front(node: ir.Node) -> ir.Value | None:
    """Returns the floats that the codes or narrow floats in front of `node` were made of."""
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    if producer is None or value is None or value.is_graph_output():
        return None
    if is_dequantize(node):
        return producer.inputs[0] if is_pair(producer) and not is_dequantize(producer) else None
    return producer.inputs[0]


def _ends_casts(node: ir.Node) -> bool:
    """Whether `node` is the second of two Casts, from float32 to a narrower float and back."""
    value = node.inputs[0] if node.inputs else None
    first = None if value is None else value.producer()
    if node.op_type != "Cast" or first is None or first.op_type != "Cast" or first.inputs[0] is None:
        return False
    narrow = first.attributes.get_int("to")
    back, from_float = node.attributes.get_int("to") == ir.DataType.FLOAT, first.inputs[0].dtype == ir.DataType.FLOAT
    return back and from_float and narrow in _FLOATS and narrow != ir.DataType.FLOAT


def _widen(node: ir.Node) -> bool:
    """Makes the narrow constant that `node` casts to float32 one of float32, where nothing else reads it."""
    value = node.inputs[0]
    wanted = node.op_type == "Cast" and node.attributes.get_int("to") == ir.DataType.FLOAT
    if not wanted or value is None or value.dtype not in _FLOATS - {ir.DataType.FLOAT} or len(value.uses()) > 1:
        return False
    set_constant(value, array_of(value).astype(np.float32))
    return _replace(node, value)


def _replace(node: ir.Node, source: ir.Value) -> bool:
    """Makes `node` an Identity of `source`, which is removed where it can be."""
    node.op_type, node.domain = "Identity", ""
    node.resize_inputs(1)
    node.replace_input_with(0, source)
    node.attributes.clear()
    return True


def _decode(builder: GraphBuilder, node: ir.Node) -> bool:
    """Makes a constant of what `node` gives for constant codes."""
    codes, scale = node.inputs[0], node.inputs[1]
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    if codes is None or scale is None or not is_constant(scale) or (zero is not None and not is_constant(zero)):
        return False
    values = array_of(codes).astype(np.float64)
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    points = np.zeros(()) if zero is None else _spread(array_of(zero).astype(np.float64), values.shape, axis, block)
    scales = array_of(scale)
    # The difference is exact in float32 up to 24 bits, and rounded once beyond, as DequantizeLinear says.
    differences = (values - points).astype(np.float32)
    floats = differences * _spread(scales.astype(np.float32), values.shape, axis, block)
    result = builder.initializer(name_of(codes).removesuffix("_quantized"), floats.astype(np.float32))
    if node.outputs[0].is_graph_output():
        return _replace(node, result)
    node.outputs[0].replace_all_uses_with(result)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return True


def _spread(array: NDArray[Any], shape: tuple[int, ...], axis: int, block: int) -> NDArray[Any]:
    """Returns scales or zero points in a form that goes with codes of `shape`."""
    if array.size == 1:
        return array.reshape(())
    if array.ndim == 1:
        sizes = [1] * len(shape)
        sizes[axis] = array.size
        return array.reshape(sizes)
    return np.repeat(array, block, axis=axis).take(range(shape[axis]), axis=axis)


def _drop_unread_nodes(graph: ir.Graph) -> None:
    for node in reversed(tuple(graph)):
        unread = not any(value.uses() or value.is_graph_output() for value in node.outputs)
        if unread and (is_pair(node) or node.op_type == "Cast"):
            graph.remove(node, safe=True)
