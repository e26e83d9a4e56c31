"""Rules of targets: what happens to an operator, and the tables that several targets share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Literal, NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant
from quarkfast.graph.walks import limits_of

__all__ = [
    "ACTIVATION",
    "AVERAGE",
    "COMPUTE",
    "FIRST",
    "LAYERS",
    "MOVEMENT",
    "RYZENAI",
    "RYZENAI_FUSED",
    "RYZENAI_PRODUCERS",
    "RYZENAI_SHIFTS",
    "SOFTMAX",
    "Flow",
    "Rule",
    "constant_weight",
    "rows",
]


def _no_objection(node: ir.Node) -> str:
    return ""


def _always(node: ir.Node) -> bool:
    return True


class Flow(Enum):
    """What an operator does with the scale of its input."""

    COMPUTE = "compute"
    """The output has a range of its own."""

    PASS_THROUGH = "pass_through"
    """The output holds values of the data input, so it has the same scale (MaxPool, Reshape, Transpose, ...)."""

    ACTIVATION = "activation"
    """An activation function: a range of its own, and the operator in front of it may compute it along."""


class Rule(NamedTuple):
    """One row of a placement table.

    Attributes:
        flow: What happens to the scale.
        inputs: Indices of the inputs that hold data; None means every float input.
        constants: Whose spec a constant operand takes; None leaves it to the target.
        output_range: Range of the output when the operator's definition gives it (Softmax).
        objection: Why this very node cannot be quantized; empty if it can.
        passes_through: For `Flow.PASS_THROUGH`, whether this very node can keep its input's scale; otherwise it
            computes.

    Example:
        >>> Rule(Flow.PASS_THROUGH, inputs=(0,)).flow.value
        'pass_through'
    """

    flow: Flow = Flow.COMPUTE
    inputs: tuple[int, ...] | None = None
    constants: Literal["activation", "weight"] | None = None
    output_range: tuple[float, float] | None = None
    objection: Callable[[ir.Node], str] = _no_objection
    passes_through: Callable[[ir.Node], bool] = _always


def rows(rule: Rule, *op_types: str) -> dict[str, Rule]:
    """Returns the same rule for several operators."""
    return dict.fromkeys(op_types, rule)


def constant_weight(index: int) -> Callable[[ir.Node], str]:
    """Returns the objection of a rule whose input `index` must be a constant."""

    def objection(node: ir.Node) -> str:
        return "" if is_constant(node.inputs[index]) else "its weight is no constant"

    return objection


def _pads_in_range(node: ir.Node) -> bool:
    """Whether a Pad adds zeros, which every range has, or the number that its data is limited to."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    value = ir.convenience.get_const_tensor(node.inputs[2])
    if value is None or node.inputs[0] is None:
        return False
    return not value.numpy().any() or float(value.numpy().reshape(())) in limits_of(node.inputs[0])


def _stays_in_range(node: ir.Node) -> bool:
    return node.attributes.get_string("mode", "nearest") != "cubic"


def _dilated(node: ir.Node) -> str:
    # onnxruntime 1.32 makes one of such a pool with pairs that it refuses itself, and then the session.
    if any(size != 1 for size in node.attributes.get_ints("dilations", ())):
        return "onnxruntime's QLinearAveragePool has no dilations"
    return ""


def _other_slope(node: ir.Node) -> str:
    """Returns the objection to a HardSigmoid with another slope than that of the accelerator's shifts."""
    slope, offset = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
    if abs(slope - 1 / 6) <= _SAME_SLOPE and offset == 0.5:
        return ""
    return f"the accelerator has a slope of 1/6 and an offset of 0.5, not {slope:.4g} and {offset:.4g}"


# Quark's tolerance.
_SAME_SLOPE = 1e-6

COMPUTE = Rule()
AVERAGE = Rule(inputs=(0,), objection=_dilated)
FIRST = Rule(inputs=(0,))
ACTIVATION = Rule(Flow.ACTIVATION, inputs=(0,))

LAYERS: Mapping[str, Rule] = MappingProxyType(rows(Rule(inputs=(0, 1)), "Conv", "ConvTranspose", "Gemm", "MatMul"))

#: Operators that move values and compute none.
MOVEMENT: Mapping[str, Rule] = MappingProxyType(
    {
        **rows(
            Rule(Flow.PASS_THROUGH, inputs=(0,)),
            "DepthToSpace", "Expand", "Flatten", "Gather", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split",
            "Squeeze", "Tile", "Transpose", "Unsqueeze",
        ),
        "Pad": Rule(Flow.PASS_THROUGH, inputs=(0,), passes_through=_pads_in_range),
        "Resize": Rule(Flow.PASS_THROUGH, inputs=(0,), passes_through=_stays_in_range),
    }
)  # fmt: skip

SOFTMAX: Mapping[str, Rule] = MappingProxyType({"Softmax": Rule(inputs=(0,), output_range=(0.0, 1.0))})

# Quark's 42 operator types of its extended quantizers (specification of Quark, section 6.1), and Flatten and HardSwish,
# which it leaves float between two quantized operators.
_STANDARD: Mapping[str, Rule] = {
    **LAYERS,
    **MOVEMENT,
    **SOFTMAX,
    **rows(COMPUTE, "Add", "Concat", "Div", "Max", "Min", "Mul", "Sub"),
    **rows(
        FIRST,
        "Erf", "Gelu", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LpNormalization",
        "ReduceMean", "Sigmoid", "Tanh",
    ),
    **rows(ACTIVATION, "Clip", "LeakyRelu", "Relu"),
    "AveragePool": AVERAGE,
    "InstanceNormalization": Rule(inputs=(0, 1)),
    "LayerNormalization": Rule(inputs=(0, 1, 2)),
    "PRelu": Rule(Flow.ACTIVATION, inputs=(0, 1)),
    "Where": Rule(inputs=(1, 2)),
}  # fmt: skip

# The same done by operators of onnxruntime, which exporters and its optimizer write.
_CONTRIB: Mapping[str, Rule] = {
    **rows(FIRST, "FastGelu", "Gelu", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization"),
    **rows(Rule(inputs=(0, 1)), "Attention", "BiasGelu", "FusedConv", "FusedGemm", "FusedMatMul"),
    **rows(Rule(inputs=(0, 1, 2)), "GroupQueryAttention", "MultiHeadAttention"),
    "SkipLayerNormalization": Rule(inputs=(0, 1, 2, 3)),
    "SkipSimplifiedLayerNormalization": Rule(inputs=(0, 1, 2)),
}

#: What the compilers of Ryzen AI are given, whatever the format.
RYZENAI: Mapping[str, Rule] = MappingProxyType(
    {**_STANDARD, **{f"com.microsoft::{name}": rule for name, rule in _CONTRIB.items()}}
)

#: The same where HardSigmoid has one slope: that of a shift (specification of Quark, section 6.2).
RYZENAI_SHIFTS: Mapping[str, Rule] = MappingProxyType(
    {**RYZENAI, "HardSigmoid": FIRST._replace(objection=_other_slope)}
)

#: Operators that Ryzen AI computes an activation function along with.
RYZENAI_PRODUCERS = frozenset(
    {"Add", "AveragePool", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool", "MatMul", "MaxPool"}
)

#: Activation function -> the operators that compute it along on Ryzen AI.
RYZENAI_FUSED: Mapping[str, frozenset[str]] = MappingProxyType(
    dict.fromkeys(("Clip", "LeakyRelu", "PRelu", "Relu"), RYZENAI_PRODUCERS)
)
