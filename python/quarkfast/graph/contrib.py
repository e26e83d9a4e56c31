"""ONNX Runtime's own operators that exporters and its optimizer write: what onnx cannot tell about their outputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx

from quarkfast.deferred import ir

__all__ = ["ATTRIBUTES", "CONTRIB_DOMAINS", "LEAST_INPUTS", "keeps_shape", "key_of", "type_outputs"]

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
