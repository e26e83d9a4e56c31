"""Q/DQ pairs and other nodes of Quark under other names: those of ONNX, of ONNX Runtime, of older libraries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["DOMAINS", "change_domain", "to_custom_pairs", "to_standard_pairs"]

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
