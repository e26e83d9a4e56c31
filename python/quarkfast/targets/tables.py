"""The placement tables: for each target, which operators are quantized and how. Data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant
from quarkfast.targets.rules import Flow, Rule

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """One placement table.

    Attributes:
        name: How presets refer to it.
        rules: Operator, as `quarkfast.graph.contrib.key_of` names it, -> its rule. One without a rule stays float.
        absorbed: Activation -> operators that compute it along, so that no Q/DQ pair stands between the two.
        dynamic: Whether activations are quantized as they come, so that only weights are placed.
        constants: Which spec constants take that are no operator's weight (the ``b`` of ``x + b``).
        results: Whether what quantized operators compute is quantized too, and every reader reads that. Otherwise
            activations are quantized as operands of these operators alone.
    """

    name: str
    rules: Mapping[str, Rule]
    absorbed: Mapping[str, frozenset[str]]
    constants: Literal["activation", "weight"]
    dynamic: bool = False
    results: bool = True


def _rows(rule: Rule, *op_types: str) -> dict[str, Rule]:
    return dict.fromkeys(op_types, rule)


def _pads_with_zero(node: ir.Node) -> bool:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    value = ir.convenience.get_const_tensor(node.inputs[2])
    return value is not None and not value.numpy().any()


def _stays_in_range(node: ir.Node) -> bool:
    return node.attributes.get_string("mode", "nearest") != "cubic"


def _dilated(node: ir.Node) -> str:
    # onnxruntime 1.32 makes one of such a pool with pairs that it refuses itself, and then the session.
    if any(size != 1 for size in node.attributes.get_ints("dilations", ())):
        return "onnxruntime's QLinearAveragePool has no dilations"
    return ""


_COMPUTE = Rule()
_AVERAGE = Rule(inputs=(0,), objects=_dilated)
_FIRST = Rule(inputs=(0,))
_CARRY = Rule(Flow.CARRY, inputs=(0,))
_ACTIVATE = Rule(Flow.ACTIVATE, inputs=(0,))

_LAYERS = _rows(Rule(inputs=(0, 1)), "Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVES = {
    **_rows(
        _CARRY,
        "DepthToSpace", "Expand", "Flatten", "Gather", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split",
        "Squeeze", "Tile", "Transpose", "Unsqueeze",
    ),
    "Pad": Rule(Flow.CARRY, inputs=(0,), carries=_pads_with_zero),
    "Resize": Rule(Flow.CARRY, inputs=(0,), carries=_stays_in_range),
}  # fmt: skip
_SOFTMAX = {"Softmax": Rule(inputs=(0,), output_range=(0.0, 1.0))}

# Quark's 42 operator types of its extended quantizers (specification of Quark, section 6.1), and Flatten and HardSwish,
# which it leaves float between two quantized operators.
_RYZENAI: Mapping[str, Rule] = MappingProxyType(
    {
        **_LAYERS,
        **_MOVES,
        **_SOFTMAX,
        **_rows(_COMPUTE, "Add", "Concat", "Div", "Max", "Min", "Mul", "Sub"),
        **_rows(
            _FIRST,
            "Erf", "Gelu", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LpNormalization",
            "ReduceMean", "Sigmoid", "Tanh",
        ),
        **_rows(_ACTIVATE, "Clip", "LeakyRelu", "Relu"),
        "AveragePool": _AVERAGE,
        "InstanceNormalization": Rule(inputs=(0, 1)),
        "LayerNormalization": Rule(inputs=(0, 1, 2)),
        "PRelu": Rule(Flow.ACTIVATE, inputs=(0, 1)),
        "Where": Rule(inputs=(1, 2)),
    }
)  # fmt: skip

# The same done by operators of onnxruntime, which exporters and its optimizer write.
_RYZENAI_CONTRIB: Mapping[str, Rule] = MappingProxyType(
    {
        f"com.microsoft::{name}": rule
        for name, rule in {
            **_rows(_FIRST, "FastGelu", "Gelu", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization"),
            **_rows(Rule(inputs=(0, 1)), "Attention", "BiasGelu", "FusedConv", "FusedGemm", "FusedMatMul"),
            **_rows(Rule(inputs=(0, 1, 2)), "GroupQueryAttention", "MultiHeadAttention"),
            "SkipLayerNormalization": Rule(inputs=(0, 1, 2, 3)),
            "SkipSimplifiedLayerNormalization": Rule(inputs=(0, 1, 2)),
        }.items()
    }
)

_RYZENAI_ALL: Mapping[str, Rule] = MappingProxyType({**_RYZENAI, **_RYZENAI_CONTRIB})

_PRODUCERS = frozenset(
    {"Add", "AveragePool", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool", "MatMul", "MaxPool"}
)
_RYZENAI_ABSORBED = MappingProxyType(dict.fromkeys(("Clip", "LeakyRelu", "PRelu", "Relu"), _PRODUCERS))

# Operators for which ONNX Runtime's CPU provider has an integer kernel that a Q/DQ pair on each side turns into, or
# through which its optimizer moves the pairs.
_ORT_CPU: Mapping[str, Rule] = MappingProxyType(
    {
        **_rows(Rule(inputs=(0, 1)), "Conv", "Gemm", "MatMul"),
        **_MOVES,
        **_SOFTMAX,
        **_rows(_COMPUTE, "Add", "Concat", "Mul"),
        **_rows(_FIRST, "GlobalAveragePool", "Sigmoid"),
        **_rows(_ACTIVATE, "Clip", "LeakyRelu", "Relu"),
        "AveragePool": _AVERAGE,
        "Where": Rule(inputs=(1, 2)),
    }
)

# ReluQuantFusion and ClipQuantFusion drop the activation when the following Q saturates at its bounds, which the zero
# point of an asymmetric range does.
_ORT_CPU_ABSORBED = MappingProxyType(
    dict.fromkeys(("Clip", "Relu"), frozenset({"Add", "Conv", "Gemm", "MatMul", "Mul"}))
)


def _weight_objection(index: int) -> Callable[[ir.Node], str]:
    def objects(node: ir.Node) -> str:
        return "" if is_constant(node.inputs[index]) else "its weight is no constant"

    return objects


def _gemm_objection(node: ir.Node) -> str:
    if node.attributes.get_int("transA", 0):
        return "it transposes its first operand"
    beta, bias = node.attributes.get_float("beta", 1.0), node.inputs[2] if len(node.inputs) > 2 else None
    if beta != 1 and bias is not None and not is_constant(bias):
        return "it scales a bias that is no constant"
    return _weight_objection(1)(node)


# Quark's choice for transformers on the NPU: matrix products with constant weights, everything else float.
_TRANSFORMER: Mapping[str, Rule] = MappingProxyType(
    _rows(Rule(inputs=(0, 1), objects=_weight_objection(1)), "Gemm", "MatMul")
)

# What ONNX Runtime has integer operators for whose first operand is quantized as it comes; and Gather from a constant,
# which is what most of a transformer's bytes are.
_DYNAMIC: Mapping[str, Rule] = MappingProxyType(
    {
        **_rows(Rule(inputs=(0, 1), objects=_weight_objection(1)), "Conv", "MatMul"),
        "Gemm": Rule(inputs=(0, 1), objects=_gemm_objection),
        "Gather": Rule(inputs=(0,), objects=_weight_objection(0)),
    }
)

# What MX formats are defined for: operands whose products are added up along the blocks (OCP Microscaling Formats 1.0,
# section 6; B. Rouhani et al., "With Shared Microexponents, A Little Shifting Goes a Long Way", 2023). Everything else
# computes in float. The tables that Gather reads are most of the bytes of many models, so they are stored that way too.
_DOT_PRODUCTS: Mapping[str, Rule] = MappingProxyType(
    {
        **_LAYERS,
        "Gather": Rule(inputs=(0,), objects=_weight_objection(0)),
        **{
            key: _RYZENAI_CONTRIB[key]
            for key in (
                "com.microsoft::Attention", "com.microsoft::FusedConv", "com.microsoft::FusedGemm",
                "com.microsoft::FusedMatMul", "com.microsoft::GroupQueryAttention",
                "com.microsoft::MultiHeadAttention",
            )
        },
    }
)  # fmt: skip

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target("ryzenai-a8w8", _RYZENAI_ALL, _RYZENAI_ABSORBED, "weight"),
            Target("ryzenai-xint8", _RYZENAI_ALL, _RYZENAI_ABSORBED, "weight"),
            Target("ryzenai-bf16", _RYZENAI_ALL, _RYZENAI_ABSORBED, "weight"),
            Target("ort-cpu", _ORT_CPU, _ORT_CPU_ABSORBED, "activation"),
            Target("ryzenai-transformer", _TRANSFORMER, MappingProxyType({}), "weight"),
            Target("ort-dynamic", _DYNAMIC, MappingProxyType({}), "weight", dynamic=True),
            Target("dot-products", _DOT_PRODUCTS, MappingProxyType({}), "weight", results=False),
        )
    }
)
"""Name -> placement table."""
