"""Schemas of operators that onnx does not know: our own, and those of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import onnx
import onnx.defs
import onnx.helper
from onnx.defs import OpSchema

from quarkfast.deferred import ir

__all__ = [
    "ATTRIBUTES",
    "CONTRIB_DOMAINS",
    "LEAST_INPUTS",
    "keeps_shape",
    "key_of",
    "own_schema",
    "register_schemas",
    "type_outputs",
]

_QUARK, _VAI, _OWN = "com.amd.quark", "com.vai.quantize", "quarkfast"
_CODES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "bfloat16")
_FLOATS = ("float", "float16", "bfloat16")
_LSTM_SCALES = {f"{name}_scale": float for name in "xwrby"} | {f"{name}_zero_point": int for name in "xwrby"}

# What an attribute is: its default, or the type of one that must be given.
_Attributes = Mapping[str, Any]
_BLOCKS: _Attributes = {"axis": 1, "block_size": 32, "rounding_mode": 0}
_BFP: _Attributes = {
    "bfp_method": "to_bfp", "axis": 1, "bit_width": 16, "block_size": 8, "rounding_mode": 0, "sub_block_size": 2,
    "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0, "use_compiler_version_cpu_kernel": 0,
}  # fmt: skip
_PACKED: _Attributes = {
    "format": str, "length": int, "axis": -1, "bit_width": 16, "sub_block_size": 2, "sub_block_shift_bits": 1,
    "element_dtype": "int8", "bits": 4, "signed": 1, "has_zero_point": 0,
}  # fmt: skip

# Operator, older name, inputs and output as "name type" (T is one of the types), types, attributes.
_ROWS: list[tuple[str, str, str, str, tuple[str, ...], _Attributes]] = [
    ("ExtendedQuantizeLinear", "VitisQuantizeLinear", "x float, scale float, zero_point T", "y T", _CODES, {"axis": 0}),
    ("ExtendedDequantizeLinear", "VitisDequantizeLinear", "x T, scale float, zero_point T", "y float", _CODES,
     {"axis": 0}),
    ("BFPQuantizeDequantize", "BFPFixNeuron", "x T", "y T", _FLOATS, _BFP),
    ("MXQuantizeDequantize", "MXFixNeuron", "x T", "y T", _FLOATS, {"element_dtype": "int8", **_BLOCKS}),
    ("ExtendedInstanceNormalization", "VitisInstanceNormalization", "x T, scale T, bias T", "y T", ("float",),
     {"epsilon": 1e-5}),
    ("ExtendedLSTM", "VitisLSTM", "x T, w T, r T, b T", "y T", ("float",),
     {"hidden_size": int, "direction": "bidirectional", "input_forget": 0, "layout": 0, **_LSTM_SCALES}),
]  # fmt: skip
_OWN_ROWS: list[tuple[str, str, str, tuple[str, ...], _Attributes]] = [
    ("Observe", "x T", "y T", _FLOATS, {"collector": int, "slot": int}),
    ("QuantizeDequantizeLinear", "x float, scale float, zero_point T", "y float", _CODES[:4], {"axis": 0}),
    ("DequantizeBlock", "records uint8, like T", "y T", _FLOATS, _PACKED),
    ("Compare", "reference T, value T", "sums double", ("float",), {"limit": float}),
]

# Of our own operators, attributes that have no default: the size of a block depends on its format.
_OPTIONAL = {"DequantizeBlock": "block_size", "Compare": "axis"}


def register_schemas() -> None:
    """Teach the checker of onnx quarkfast's operators and AMD Quark's, with their older names; again does nothing.

    Without schemas `onnx.checker` passes over nodes of these domains; with them it refuses unknown attributes, wrong
    counts of inputs and attributes of another type.

    Example:
        >>> import onnx, quarkfast
        >>> quarkfast.register_schemas()
        >>> onnx.defs.has("MXQuantizeDequantize", domain="com.amd.quark")
        True
    """
    for schema in _schemas():
        if not onnx.defs.has(schema.name, domain=schema.domain):
            onnx.defs.register_schema(schema)


def own_schema(op_type: str, domain: str) -> OpSchema | None:
    """Returns the schema of an operator that `register_schemas` would teach, taught or not; None of any other."""
    return _by_name().get((domain, op_type))


@cache
def _by_name() -> Mapping[tuple[str, str], OpSchema]:
    return {(schema.domain, schema.name): schema for schema in _schemas()}


def _schemas() -> Iterator[OpSchema]:
    for name, older, inputs, output, types, attributes in _ROWS:
        yield _schema(_QUARK, name, inputs, output, types, attributes)
        yield _schema(_VAI, older, inputs, output, types, attributes)
    for name, inputs, output, types, attributes in _OWN_ROWS:
        extra = {_OPTIONAL[name]: OpSchema.AttrType.INT} if name in _OPTIONAL else {}
        yield _schema(_OWN, name, inputs, output, types, attributes, extra)


def _schema(
    domain: str,
    name: str,
    inputs: str,
    output: str,
    types: tuple[str, ...],
    attributes: _Attributes,
    optional: Mapping[str, OpSchema.AttrType] | None = None,
) -> OpSchema:
    rows = [_attribute(key, value) for key, value in attributes.items()]
    rows += [OpSchema.Attribute(key, kind, required=False) for key, kind in (optional or {}).items()]
    return OpSchema(
        name,
        domain,
        1,
        doc="docs/operators.md of quarkfast describes it.",
        inputs=[_parameter(text) for text in inputs.split(", ")],
        outputs=[_parameter(output)],
        type_constraints=[("T", [f"tensor({name})" for name in types], "Element types.")],
        attributes=rows,
    )


def _parameter(text: str) -> OpSchema.FormalParameter:
    name, kind = text.split(" ")
    return OpSchema.FormalParameter(name, kind if kind == "T" else f"tensor({kind})")


def _attribute(name: str, value: Any) -> OpSchema.Attribute:
    kinds = {int: OpSchema.AttrType.INT, float: OpSchema.AttrType.FLOAT, str: OpSchema.AttrType.STRING}
    if isinstance(value, type):
        return OpSchema.Attribute(name, kinds[value], required=True)
    return OpSchema.Attribute(name, onnx.helper.make_attribute(name, value))


#: Domains of onnxruntime's operators.
CONTRIB_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")

#: Operator type -> how many inputs it has at least.
LEAST_INPUTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("FastGelu", "Gelu", "MultiHeadAttention", "QuickGelu"), 1),
        **dict.fromkeys(
            ("Attention", "BiasGelu", "DequantizeLinear", "FusedConv", "FusedGemm", "FusedMatMul", "QuantizeLinear",
             "SimplifiedLayerNormalization", "TransposeMatMul"), 2,
        ),
        **dict.fromkeys(
            ("DynamicQuantizeMatMul", "GatherBlockQuantized", "GroupQueryAttention", "MatMulNBits",
             "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), 3,
        ),
        **dict.fromkeys(
            ("MatMulIntegerToFloat", "QLinearAveragePool", "QLinearLeakyRelu", "QLinearReduceMean", "QLinearSigmoid",
             "QLinearSoftmax", "RotaryEmbedding"), 4,
        ),
        **dict.fromkeys(("QAttention", "QLinearConcat", "QLinearGlobalAveragePool"), 5),
        "QGemm": 6, "QLinearAdd": 7, "QLinearMul": 7,
    }
)  # fmt: skip

#: Attribute -> its type, of those that are read of these operators, whichever has them.
ATTRIBUTES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("alpha", "beta", "epsilon"), onnx.AttributeProto.FLOAT),
        **dict.fromkeys(
            ("K", "N", "axis", "bits", "block_size", "group", "keepdims", "num_heads", "transA", "transB"),
            onnx.AttributeProto.INT,
        ),
        **dict.fromkeys(("axes", "dilations", "kernel_shape", "pads", "strides"), onnx.AttributeProto.INTS),
        **dict.fromkeys(("activation", "auto_pad"), onnx.AttributeProto.STRING),
    }
)

# Operator type -> whether its first output has the shape of its first input; its type it has in any case.
_OUTPUTS: Mapping[str, bool] = MappingProxyType(
    {
        **dict.fromkeys(
            ("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization",
             "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), True,
        ),
        **dict.fromkeys(
            ("Attention", "FusedConv", "FusedGemm", "FusedMatMul", "GroupQueryAttention", "MultiHeadAttention",
             "TransposeMatMul"), False,
        ),
    }
)  # fmt: skip


# Operators whose types onnx does not infer, and whose output has the shape of their input.
_ELEMENTWISE = frozenset(
    {
        "GroupNormalization",
        *(f"ai.onnx.ml::{name}" for name in ("Binarizer", "Imputer", "LabelEncoder", "Normalizer", "Scaler")),
    }
)


def keeps_shape(node: ir.Node) -> bool:
    """Returns whether an operator that onnx infers nothing of gives the shape of its first input."""
    if node.domain in CONTRIB_DOMAINS:
        return _OUTPUTS.get(node.op_type, False)
    return key_of(node) in _ELEMENTWISE


def key_of(node: ir.Node) -> str:
    """Returns how tables name the operator of `node`: its type, with the domain in front if it is not the standard's.

    Example:
        >>> import onnx_ir as ir
        >>> key_of(ir.node("Gelu", [], domain="com.microsoft")), key_of(ir.node("Gelu", []))
        ('com.microsoft::Gelu', 'Gelu')
    """
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def type_outputs(model: ir.Model) -> bool:
    """Fills in the type, and where it is known the shape, of outputs that onnx cannot infer; whether there were any."""
    found = False
    for node in model.graph:
        is_known = node.domain in CONTRIB_DOMAINS and node.op_type in _OUTPUTS
        data, output = (node.inputs[0] if node.inputs else None), node.outputs[0]
        if not is_known or data is None or data.dtype is None or output.dtype is not None:
            continue
        output.dtype = data.dtype
        if keeps_shape(node) and output.shape is None:
            output.shape = data.shape
        found = True
    return found
