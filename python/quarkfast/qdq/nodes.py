"""How a quantizer is spelled as nodes: one row for each type and encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from quarkfast.config import Encoding, Scheme
from quarkfast.dtypes import qtype
from quarkfast.graph.plan import Quantizer

__all__ = ["Form", "dequantize_node", "find_form", "lowest_opset", "quantize_node"]

_QUARK = "com.amd.quark"


@dataclass(frozen=True, slots=True)
class Form:
    """The operators that turn floats into codes and back.

    Attributes:
        domain: Their domain.
        quantize: Operator type, floats to codes.
        dequantize: Operator type, codes to floats.
        opset: The oldest version of the standard operators that has them for this type.
        parameters: Whether they take scale and zero point.
    """

    domain: str
    quantize: str
    dequantize: str
    opset: int
    parameters: bool = True


_STANDARD = Form("", "QuantizeLinear", "DequantizeLinear", 10)
_STANDARD_21 = Form("", "QuantizeLinear", "DequantizeLinear", 21)
# 13 because stored constants are turned back by a Cast, which knows bfloat16 from there on.
_CUSTOM = Form(_QUARK, "ExtendedQuantizeLinear", "ExtendedDequantizeLinear", 13)
_CAST = Form("", "Cast", "Cast", 13, parameters=False)

_FORMS: Mapping[tuple[str, Encoding], Form] = MappingProxyType(
    {
        ("int8", "qdq"): _STANDARD,
        ("uint8", "qdq"): _STANDARD,
        ("int32", "qdq"): _STANDARD,
        ("int16", "qdq"): _STANDARD_21,
        ("uint16", "qdq"): _STANDARD_21,
        ("bfloat16", "qdq"): _CUSTOM,
        ("float16", "qdq"): _CUSTOM,
        ("bfloat16", "cast"): _CAST,
        ("float16", "cast"): _CAST,
    }
)


def find_form(dtype: str, encoding: Encoding) -> Form:
    """Returns how `dtype` is spelled in `encoding`; every preset and option leads to a row that exists."""
    return _FORMS[dtype, encoding]


def lowest_opset(scheme: Scheme) -> int:
    """Returns the oldest operator set that carries `scheme`: 10, 13 for one scale a channel, 21 for 16-bit integers.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> lowest_opset(PRESETS["A8W8"]), lowest_opset(PRESETS["A16W8"])
        (10, 21)
    """
    forms = [find_form(spec.dtype, scheme.encoding).opset for spec in (scheme.activation, scheme.weight)]
    return max(*forms, 13 if scheme.weight.granularity == "channel" else 10)


def quantize_node(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, encoding: Encoding
) -> ir.Node:
    """Returns a node that turns the floats of `value` into codes."""
    form = find_form(quantizer.dtype, encoding)
    dtype = ir.DataType(qtype(quantizer.dtype).onnx)
    node = _node(form, form.quantize, value, parameters, quantizer, dtype)
    node.outputs[0].dtype = dtype
    return node


def dequantize_node(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, encoding: Encoding
) -> ir.Node:
    """Returns a node that turns the codes of `value` back into floats."""
    form = find_form(quantizer.dtype, encoding)
    node = _node(form, form.dequantize, value, parameters, quantizer, ir.DataType.FLOAT)
    node.outputs[0].dtype = ir.DataType.FLOAT
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
