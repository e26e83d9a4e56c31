"""How a quantizer is spelled as nodes, a pair or a single one: one row for each type and encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from quarkfast.config import Encoding, Scheme
from quarkfast.deferred import ir
from quarkfast.formats.block import BLOCK_FORMATS, BlockFormat, Rounding
from quarkfast.formats.scalar import qtype
from quarkfast.graph.plan import Quantizer

__all__ = [
    "Form",
    "Spelling",
    "clip_node",
    "decode_block_node",
    "dequantize_nodes",
    "find_form",
    "lowest_opset",
    "quantize_nodes",
    "round_node",
]

_QUARK = "com.amd.quark"

# How a tensor is written: as the scheme says, or as a bias, whose int32 codes the standard can turn back but not make.
Spelling = Encoding | Literal["bias"]


@dataclass(frozen=True, slots=True)
class Form:
    """The operators that turn floats into codes and back.

    Attributes:
        domain: Their domain.
        quantize: Operator type, floats to codes; or floats to floats that the type can hold.
        dequantize: Operator type, codes to floats; None where one operator does both.
        opset: The oldest version of the standard operators that has them for this type.
        parameters: Whether they take scale and zero point.
        attributes: What else the operator takes.
    """

    domain: str
    quantize: str
    dequantize: str | None
    opset: int
    parameters: bool = True
    attributes: Mapping[str, int | str] = field(default_factory=dict)


_STANDARD = Form("", "QuantizeLinear", "DequantizeLinear", 10)
_STANDARD_21 = Form("", "QuantizeLinear", "DequantizeLinear", 21)
# 13 because stored constants are turned back by a Cast, which knows bfloat16 from there on.
_CUSTOM = Form(_QUARK, "ExtendedQuantizeLinear", "ExtendedDequantizeLinear", 13)
_CUSTOM_10 = Form(_QUARK, "ExtendedQuantizeLinear", "ExtendedDequantizeLinear", 10)
_CAST = Form("", "Cast", "Cast", 13, parameters=False)
# Casts, because onnxruntime's optimizer takes every QuantizeLinear for one to integers: it drops a Relu in front of one
# to float8, cannot load a Clip there, and before 1.32 makes QLinearConv and others of codes that they do not know.
_CAST_19 = Form("", "Cast", "Cast", 19, parameters=False)

# Numbers of Quark's attribute; those of `quarkfast.kernels`.
_ROUNDING_MODES: Mapping[Rounding, int] = MappingProxyType({"half_away": 0, "half_up": 1, "half_even": 2})

# Attributes of Quark's operators that `DequantizeBlock` takes as well.
_PACKED = frozenset({"bit_width", "block_size", "sub_block_size", "sub_block_shift_bits", "element_dtype"})

_FORMS: Mapping[tuple[str, Spelling], Form] = MappingProxyType(
    {
        ("int8", "qdq"): _STANDARD,
        ("uint8", "qdq"): _STANDARD,
        ("int32", "bias"): _STANDARD,
        ("int16", "qdq"): _STANDARD_21,
        ("uint16", "qdq"): _STANDARD_21,
        ("int4", "qdq"): _STANDARD_21,
        ("uint4", "qdq"): _STANDARD_21,
        ("float8_e4m3fn", "qdq"): _CAST_19,
        ("float8_e5m2", "qdq"): _CAST_19,
        ("int32", "qdq"): _CUSTOM_10,
        ("uint32", "qdq"): _CUSTOM_10,
        ("bfloat16", "qdq"): _CUSTOM,
        ("float16", "qdq"): _CUSTOM,
        ("bfloat16", "cast"): _CAST,
        ("float16", "cast"): _CAST,
        **{
            (row.name, "qdq"): Form(_QUARK, row.operator, None, 10, parameters=False, attributes=row.attributes)
            for row in BLOCK_FORMATS.values()
        },
    }
)


def find_form(dtype: str, spelling: Spelling) -> Form:
    """Returns how `dtype` is spelled; what has no Cast or is no bias is spelled as ``"qdq"``."""
    return _FORMS.get((dtype, spelling)) or _FORMS[dtype, "qdq"]


def lowest_opset(scheme: Scheme) -> int:
    """Returns the oldest operator set that carries `scheme`: 10, 13 for one scale a channel, 21 for 16-bit integers.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> lowest_opset(PRESETS["A8W8"]), lowest_opset(PRESETS["A16W8"])
        (10, 21)
    """
    if scheme.encoding == "dynamic":
        return 11
    specs = scheme.specs()
    channels = any(spec.granularity == "channel" for spec in specs)
    return max(13 if channels else 10, *(find_form(spec.dtype, scheme.encoding).opset for spec in specs))


def quantize_nodes(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, spelling: Spelling
) -> tuple[ir.Node, ...]:
    """Returns the nodes that turn the floats of `value` into codes, in order.

    Args:
        value: What to quantize.
        parameters: Scale and zero point; for Casts, the scale if there is one.
        quantizer: Type and axis.
        spelling: Which operators.
    """
    form = find_form(quantizer.dtype, spelling)
    dtype = ir.DataType(qtype(quantizer.dtype).onnx)
    scaling: tuple[ir.Node, ...] = ()
    if not form.parameters and parameters:
        scaling, parameters = (_scaled("Div", value, parameters[0]),), ()
        value = scaling[0].outputs[0]
    node = _node(form, form.quantize, value, parameters, quantizer, dtype)
    node.outputs[0].dtype = dtype
    return (*scaling, node)


def dequantize_nodes(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, spelling: Spelling
) -> tuple[ir.Node, ...]:
    """Returns the nodes that turn the codes of `value` back into floats; arguments as of :func:`quantize_nodes`."""
    form = find_form(quantizer.dtype, spelling)
    given = parameters if form.parameters else ()
    node = _node(form, form.dequantize or form.quantize, value, given, quantizer, ir.DataType.FLOAT)
    node.outputs[0].dtype = ir.DataType.FLOAT
    return (node,) if form.parameters or not parameters else (node, _scaled("Mul", node.outputs[0], parameters[0]))


def clip_node(value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Node:
    """Returns a node that limits `value`."""
    node = ir.node("Clip", [value, low, high])
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def _scaled(op_type: str, value: ir.Value, scale: ir.Value) -> ir.Node:
    node = ir.node(op_type, [value, scale])
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def round_node(value: ir.Value, dtype: str, axis: int, rounding: Rounding) -> ir.Node:
    """Returns a node that rounds `value` to a block format along `axis`."""
    form = find_form(dtype, "qdq")
    attributes = {**form.attributes, "axis": axis, "rounding_mode": _ROUNDING_MODES[rounding]}
    node = ir.node(form.quantize, [value], attributes, domain=form.domain)
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def decode_block_node(
    records: ir.Value, like: ir.Value, row: BlockFormat, shape: tuple[int, ...], axis: int
) -> ir.Node:
    """Returns a node that turns packed `records` back into float32, the type of `like`, of shape `shape`."""
    shown = {key: value for key, value in row.attributes.items() if key in _PACKED}
    attributes = {"format": row.family, "length": shape[axis], "axis": axis, **shown}
    node = ir.node("DequantizeBlock", [records, like], attributes, domain="quarkfast")
    node.outputs[0].shape, node.outputs[0].dtype = ir.Shape(shape), ir.DataType.FLOAT
    return node


def _node(
    form: Form, op_type: str, value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, to: ir.DataType
) -> ir.Node:
    attributes: dict[str, int] = {}
    if not form.parameters:
        attributes["to"] = int(to)
    elif quantizer.axis is not None:
        attributes["axis"] = quantizer.axis
    node = ir.node(op_type, [value, *parameters], attributes, domain=form.domain)
    node.outputs[0].shape = value.shape
    return node
