"""Operators that the NPU of Ryzen AI takes, by format, as AMD says. Data only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["A8W8", "A16W8", "BF16", "OPSET", "XINT8", "Device"]

#: The operator set that AMD recommends (ryzenai.docs.amd.com, "Model Compilation and Deployment").
OPSET = 17


class Device(NamedTuple):
    """What the compiler takes in one format.

    Attributes:
        name: The column of AMD's list of operators.
        listed: Operators of the ONNX standard that the list names in it.
        floats: Whether nodes without a Q/DQ pair run on the NPU too.
        batch: Whether the first dimension of an input may stay open, which the compiler for BF16 takes from Ryzen AI
            1.6 on.
    """

    name: str
    listed: frozenset[str]
    floats: bool = False
    batch: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# "Supported Operators" of Ryzen AI 1.5.0, docs/ops_support.rst of amd/ryzen-ai-documentation: operators by the columns
# that say yes. Q and DQ are left out.
_ALL = _names(
    """Add AveragePool BatchNormalization Concat Constant ConstantOfShape Conv DepthToSpace Div Expand Flatten Gemm
    GlobalAveragePool Identity InstanceNormalization MatMul Max MaxPool Min Mul Pad Reciprocal ReduceMax Reshape Shape
    Slice Sqrt Squeeze Sub Transpose Unsqueeze Upsample"""
)
_INTEGERS = _names("Clip Gelu GlobalMaxPool GroupNormalization LeakyRelu Relu Softmax")
_BF16_XINT8 = _names(
    """Abs And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil CumSum Equal Erf Floor
    Greater Less Log Neg Or Pow Round Sign Tile"""
)
_BF16_ONLY = _names(
    """ConvTranspose Einsum Exp Gather GatherElements GridSample LSTM Mod Not ReduceMean ReduceMin ReduceSum Resize
    ScatterND Sigmoid Sin Size Split Tanh Where Xor"""
)
_A16W8_ONLY = _names("ConvTranspose Cos Elu Exp GatherElements Sigmoid Sin Split Tanh TopK Where")
_A8W8_ONLY = _names("ConvTranspose Cos HardSigmoid HardSwish ReduceMean ReduceMin ReduceSum Resize Sigmoid Sin")
_XINT8_ONLY = _names(
    """Celu Elu GreaterOrEqual HardSwish LayerNormalization LessOrEqual Mish Range ReduceMean ReduceMin ReduceSum Resize
    STFT Shrink Softsign Tanh ThresholdedRelu TopK Where"""
)
# What docs/onnx_op_support.rst there names for the NPU beyond these, without a word on formats.
_UNDATED = _names("ConvTranspose HardSigmoid PRelu SpaceToDepth")

# The column of BF16 leaves out Relu and Softmax, which AMD's own models in BF16 have: there all columns count.
_ANY = _ALL | _INTEGERS | _BF16_XINT8 | _BF16_ONLY | _A16W8_ONLY | _A8W8_ONLY | _XINT8_ONLY | _UNDATED

A8W8 = Device("A8W8", _ALL | _INTEGERS | _A8W8_ONLY | _UNDATED)
A16W8 = Device("A16W8", _ALL | _INTEGERS | _A16W8_ONLY | _UNDATED)
XINT8 = Device("XINT8", _ALL | _INTEGERS | _BF16_XINT8 | _XINT8_ONLY | _UNDATED)
BF16 = Device("BF16", _ANY, floats=True, batch=True)
