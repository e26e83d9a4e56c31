"""Every set of operator names, once, and what the standard's operators do with their constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.schemas import key_of

# Quantizers

_ROUNDERS = {"BFPQuantizeDequantize", "BFPFixNeuron", "MXQuantizeDequantize", "MXFixNeuron"}

CODE_WRITERS = frozenset({"QuantizeLinear", "ExtendedQuantizeLinear", "VitisQuantizeLinear"})
"""Operators that turn floats into codes."""

CODE_READERS = frozenset({"DequantizeLinear", "ExtendedDequantizeLinear", "VitisDequantizeLinear"})
"""Operators that turn codes into floats."""

QUANTIZERS = CODE_WRITERS | _ROUNDERS
"""Operators whose output holds what a narrower type can: codes, or rounded floats."""

DEQUANTIZERS = CODE_READERS | _ROUNDERS | {"DequantizeBlock"}
"""Operators that give back floats which a narrower type can hold."""

ON_CODES = frozenset(
    {
        *("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
        *("com.microsoft::DynamicQuantizeLSTM", "com.microsoft::DynamicQuantizeMatMul", "com.microsoft::MatMulBnb4"),
        *("com.microsoft::MatMulIntegerToFloat", "com.microsoft::MatMulNBits", "com.microsoft::QAttention"),
        *("com.microsoft::QGemm", "com.microsoft::QOrderedMatMul"),
    }
)
"""Layers, as `key_of` names them, that compute on codes, or decode weights themselves."""

# Layers

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})

BIASED_LAYERS = CONVOLUTIONS | {"Gemm"}
"""Layers with an input for a bias."""

LAYERS = BIASED_LAYERS | {"MatMul"}
"""Layers of the standard that compute sums of products with a weight."""

PAIRED_PRODUCTS = LAYERS - {"ConvTranspose"}
"""Layers whose 8-bit products onnxruntime adds in pairs on x86 without VNNI."""

FLOAT_LAYERS = LAYERS | {"FusedConv", "FusedGemm", "FusedMatMul"}
"""Layers that compute on floats, as onnxruntime's optimizer leaves them."""

MATRIX_PRODUCTS = frozenset({"Einsum", "FusedMatMul", "MatMul"})
"""Products whose two operands a model may compute, as an attention does."""

VARIABLE_PRODUCTS = frozenset({"Div", "MatMul", "Mul"})
"""Products and quotients of two tensors."""

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
"""Recurrent layers."""

NORMALIZATIONS = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})
"""Layer normalizations that read one tensor."""

SUMMED_NORMALIZATIONS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
"""Layer normalizations of the sum of two tensors."""

CHANNELS_SECOND = CONVOLUTIONS | {"BatchNormalization", "InstanceNormalization"}
"""Operators whose data has its channels along the second axis."""

# Operators that move numbers, from the fewest freedoms to the most

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose result is what they read under another shape."""

REARRANGERS = VIEWS | {"Transpose"}
"""Operators that keep every number of one tensor, at the same place or another."""

MOVERS = REARRANGERS | {"Slice"}
"""Operators that move numbers of one tensor, or leave some out, and compute nothing."""

PACKERS = MOVERS | {"Concat", "Split"}
"""Operators that move numbers of one tensor or several, or leave some out."""

JOINING_MOVERS = PACKERS | {"Expand", "Gather", "Tile"}
"""Operators that move numbers of one tensor or several, leave some out or repeat them, and compute nothing."""

PASS_THROUGH = MOVERS | {"Cast", "CastLike", "Dropout", "Expand"}
"""Operators that pass the values of their first input on, as numbers of its type or another."""

SELECTORS = (JOINING_MOVERS - {"Concat"}) | {"DepthToSpace", "GlobalMaxPool", "MaxPool", "SpaceToDepth"}
"""Operators that hand on values of what they read first, and no others."""

SCALE_KEEPERS = SELECTORS | {"GatherElements", "GatherND", "Pad", "Resize"}
"""Operators that move values or choose among them: tools give the result the scale of what they read."""

RUNTIME_MOVERS = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators behind which onnxruntime's QDQPropagationTransformer moves a DequantizeLinear, with a pair of its own."""

RUNTIME_DROPPERS = RUNTIME_MOVERS | {"Expand", "Flatten", "Gather", "Tile"}
"""Operators around which onnxruntime drops a pair, or moves it behind."""

TYPE_KEEPERS = JOINING_MOVERS | {"Cast", "Pad"}
"""Operators that compute nothing in a floating-point type that a model stores."""

SHAPE_READERS = frozenset({"Shape", "Size"})
"""Operators that read no values."""

# Operators that choose

COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"})
"""Operators that give true or false for each number."""

DECIDERS = COMPARISONS | {"ArgMax", "ArgMin", "Range"}
"""Operators of which a step of rounding decides what they give, or how much."""

RANKING = frozenset({"Compress", "NonMaxSuppression", "NonZero", "TopK", "Unique"})
"""Operators whose results change places, or their number, with the least change of what they read."""

SCORE_READERS = frozenset(
    {"And", "ArgMax", "Cast", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "ReduceMax"}
)
"""Operators that tell a ranking of scores."""

BOX_CHOOSERS = frozenset(
    {"Cast", "Compress", "GatherElements", "GatherND", "NonMaxSuppression", "ReduceMax", "TopK", "Where"}
)
"""Operators that choose boxes by their scores, and give the number of a class with them."""

TAKERS = frozenset({"Gather", "Slice", "Split"})
"""Operators that take some of the values."""

DRAWERS = frozenset(
    {
        *("Bernoulli", "Dropout", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    }
)
"""Operators that give other values each time."""

NEVER_QUANTIZED = (
    COMPARISONS
    | (DRAWERS - {"Dropout"})
    | SHAPE_READERS
    | {
        *("Cast", "CastLike", "Constant", "ConstantOfShape", "DequantizeLinear", "DynamicQuantizeLinear", "EyeLike"),
        *("If", "Loop", "NonMaxSuppression", "NonZero", "OneHot", "QuantizeLinear", "Range", "Scan"),
    }
)
"""Operators that compute on no floats, or whose result rounding could change altogether: types, shapes, codes,
comparisons, bodies and random numbers."""

# Arithmetic

AFFINE_STEPS = frozenset({"Add", "Div", "Mul", "Neg", "Sub"})
"""Operators that with one constant are ``a * x + b``."""

ELEMENTWISE = frozenset({"Add", "Div", "Max", "Min", "Mul", "Sub"})
"""Operators of two operands that compute element by element."""

RESIDUAL_STEPS = frozenset({"Add", "Div", "Mul", "Sub", "Where"})
"""Arithmetic in front of a layer normalization or an attention."""

JOINED_STEPS = frozenset({"Add", "Concat", "Div", "Mul", "Sub"})
"""Arithmetic and joins in front of a recurrent layer."""

RANGE_STEPS = frozenset({"Abs", "Add", "Clip", "Max", "Min", "Mul", "Neg", "Pow", "Sub"})
"""Arithmetic that has no poles: what divisors and logarithms are computed with."""

BOX_STEPS = RANGE_STEPS | {"Div", "Exp"}
"""Arithmetic that decodes boxes."""

REDUCTIONS = frozenset({"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"})

POWER_SUMS = REDUCTIONS - {"ReduceMax", "ReduceMean", "ReduceMin"}
"""Sums of powers along axes."""

STEEP = frozenset({"Log", "Reciprocal", "Sqrt"})
"""Functions to which the smallest values matter as much as the largest."""

LINEAR_STEPS = frozenset({"AveragePool", "Cast", "DFT", "Div", "Pad", "ReduceMean", "STFT"})
"""Operators that a signal may pass in front of a transform, alone or with constants."""

ROOT_STEPS = frozenset({"Add", "Div", "Mul", "Pow", "Reciprocal", "Sqrt"})
"""Operators that make the divisor of a normalization of its mean squares."""

FOLDED_ARITHMETIC = frozenset(
    {
        *("Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Equal", "Exp", "Floor", "Greater", "Less", "Log", "Max", "Min"),
        *("Mul", "Neg", "Pow", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sqrt", "Sub", "Tanh", "Where"),
    }
)
"""Arithmetic element by element that weights are computed with."""

EMPTY_STEPS = AFFINE_STEPS | {"Cast", "Identity"}
"""Arithmetic whose result is empty where what it reads is."""

FUNCTION_CORES = (POWER_SUMS - {"ReduceL1"}) | STEEP | {"Erf", "Exp", "Pow", "ReduceMean", "Tanh"}
"""Operators one of which makes a function out of arithmetic. Without any, it is ``x * Sigmoid(x)`` or ``x * Clip(x +
3)``, whose two or three operators targets compute in integers."""

FUNCTION_STEPS = FUNCTION_CORES | {
    *("Abs", "Add", "Cast", "Clip", "Div", "Expand", "Identity", "Max", "Min", "Mul", "Neg", "ReduceMax", "ReduceMin"),
    *("Relu", "Reshape", "Sigmoid", "Softplus", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
}
"""Operators that exporters write functions out with. Each computes an output element from elements of one input and
constants."""

# Functions

HOMOGENEOUS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LeakyRelu", "MaxPool", "Relu"})
"""Operators that a positive factor of a channel passes through. (Pools pad with what no factor changes.)"""

RECTIFIERS = frozenset({"FastGelu", "Gelu", "HardSwish", "Mish", "QuickGelu", "Relu", "Swish"})
"""Activations that leave positive values about as they are and take nearly all from negative ones."""

GATE_STEPS = frozenset(
    {"Add", "Cast", "Clip", "Div", "Erf", "Exp", "HardSigmoid", "Mul", "Pow", "Sigmoid", "Softplus", "Tanh"}
)
"""Operators of which such activations are made where they are written out as ``x * g(x)``."""

FLATTENING = frozenset({"Sigmoid", "Softmax"})
"""Functions that give nearly the same for inputs far from zero, whatever these are."""

HEAD_FUNCTIONS = frozenset({"Clip", "HardSigmoid", "LogSoftmax", "Relu", "Sigmoid", "Softmax", "Tanh"})
"""Functions of the scores of all levels of a detector."""

ANSWER_FUNCTIONS = frozenset({"ArgMax", "LogSoftmax", "Sigmoid", "Softmax", "TopK"})
"""What a model may do to its answers before it gives them."""

BOUNDED = frozenset({"Clip", "HardSigmoid", "Hardmax", "LpNormalization", "Sigmoid", "Softmax", "Softsign", "Tanh"})
"""Functions whose values lie within limits of their own, so that none lies beyond what was seen by much."""

BOUNDED_JOINS = frozenset({"Max", "Min", "Mul"})
"""Operators of several tensors within limits whose results are within them."""

BOUNDED_STEPS = BOUNDED_JOINS | {
    *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMean", "ReduceMin"),
}
"""Operators that leave values within the limits of what they read."""

# Attention

SCORE_STEPS = frozenset({"Clip", "Div", "Max", "Min", "Mul", "Neg", "Tanh"})
"""Operators that scores of an attention go through one by one: the scale, a soft cap, a lower limit."""

SCORE_LIMITS = frozenset({"Clip", "Max", "Min"})
"""Those that limit scores."""

SCORE_JOINS = frozenset({"Add", "Concat", "Sub", "Where"})
"""Operators that join scores with something else: masks, biases of positions, sinks."""

MASK_STEPS = (
    PASS_THROUGH
    | SCORE_STEPS
    | SCORE_JOINS
    | {"ConstantOfShape", "Gather", "Log", "Pad", "ScatterElements", "ScatterND", "Tile", "Trilu"}
)
"""Operators that masks are computed with."""

# Where constants are

ChannelAxis = Callable[[ir.Node, int], int]


class Operator(NamedTuple):
    """Where an operator's constants are.

    Attributes:
        weight: Index of the input that is a weight.
        bias: Index of the input that is added to the sum of products, or None.
        channel_axis: From the node and the weight's rank (at least 2) to the axis of the weight's output channels.
    """

    weight: int
    bias: int | None
    channel_axis: ChannelAxis


def _first(node: ir.Node, rank: int) -> int:
    return 0


def _second(node: ir.Node, rank: int) -> int:
    return 1


def _last(node: ir.Node, rank: int) -> int:
    return rank - 1


def _gemm(node: ir.Node, rank: int) -> int:
    return 0 if node.attributes.get_int("transB", 0) else 1


def _fused_matmul(node: ir.Node, rank: int) -> int:
    return rank - 2 if node.attributes.get_int("transB", 0) else rank - 1


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "Conv": Operator(1, 2, _first),
        "ConvTranspose": Operator(1, 2, _second),
        "Gemm": Operator(1, 2, _gemm),
        "MatMul": Operator(1, None, _last),
        "InstanceNormalization": Operator(1, 2, _first),
        "com.microsoft::Attention": Operator(1, 2, _last),
        "com.microsoft::FusedConv": Operator(1, 2, _first),
        "com.microsoft::FusedGemm": Operator(1, 2, _gemm),
        "com.microsoft::FusedMatMul": Operator(1, None, _fused_matmul),
    }
)
"""Operator, as `key_of` names it, -> where its constants are."""


def find_operator(node: ir.Node) -> Operator | None:
    """Returns the row for `node`, or None if it has no weights."""
    return OPERATORS.get(key_of(node))


def is_dequantized(value: ir.Value | None) -> bool:
    """Whether a DequantizeLinear gives `value`: the model is quantized already, or its author wrote that pair."""
    producer = None if value is None else value.producer()
    return producer is not None and producer.op_type in DEQUANTIZERS


def is_quantized(value: ir.Value) -> bool:
    """Whether nothing but a QuantizeLinear reads `value`."""
    uses = tuple(value.uses())
    return bool(uses) and all(reader.op_type in QUANTIZERS for reader, _ in uses) and not value.is_graph_output()


RECURRENT_WEIGHTS = (1, 2)
"""The inputs that are weights: W of the inputs, and R of the state."""

GATE_AXIS = 1
"""The axis of the output channels of these: the rows of all gates of a direction."""


def is_recurrent(node: ir.Node) -> bool:
    """Whether a node is a recurrent layer."""
    return node.op_type in RECURRENT and is_standard(node)
