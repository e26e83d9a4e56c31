"""Rules of a target that users may turn on or off, by name: the option ``constraints``, and Quark's keys.

Each is a function of a target and of whether the rule is on, and returns the target so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from quarkfast.graph.operators import ELEMENTWISE
from quarkfast.targets.constraints.shift_limits import ShiftLimits
from quarkfast.targets.constraints.shift_rules import ALIGNED, NAMES
from quarkfast.targets.conversions import CONVERSIONS, SIMULATIONS, Conversion, Simulation
from quarkfast.targets.rules import RYZENAI_PRODUCERS, Flow, Rule, constant_weight
from quarkfast.targets.target import Switch, Target

__all__ = [
    "CONSTANT_MATMUL",
    "CONVERTED",
    "FLOAT_SCALES",
    "FUSED",
    "SHIFTS",
    "SIMULATED",
    "behind_products",
    "fusion",
]


def _with_rules(target: Target, change: Callable[[Rule], Rule], *op_types: str) -> Target:
    changed = {op_type: change(target.rules[op_type]) for op_type in op_types if op_type in target.rules}
    return replace(target, rules=MappingProxyType({**target.rules, **changed}))


def _join(target: Target, on: bool) -> Target:
    """The inputs of a Concat take the range of its output, constants in the type of activations."""
    joined = _with_rules(target, lambda rule: rule._replace(constants="activation" if on else None), "Concat")
    types = frozenset({"Concat"})
    return replace(joined, one_range=target.one_range | types if on else target.one_range - types)


def _pass_averages(target: Target, on: bool) -> Target:
    """The output of an average pool has the scale of its input."""
    flow = Flow.PASS_THROUGH if on else Flow.COMPUTE
    return _with_rules(target, lambda rule: rule._replace(flow=flow), "AveragePool", "GlobalAveragePool")


def _like_activations(target: Target, on: bool) -> Target:
    """A constant operand of an elementwise operator takes the type of activations, or that of weights."""
    return _with_rules(target, lambda rule: rule._replace(constants="activation" if on else "weight"), *ELEMENTWISE)


def _weights_only(target: Target, on: bool) -> Target:
    """A MatMul stays float unless its second operand is constant."""
    objection: dict[str, Any] = {"objection": constant_weight(1) if on else Rule().objection}
    return _with_rules(target, lambda rule: rule._replace(**objection), "MatMul")


def fusion(op_type: str, producers: frozenset[str]) -> Switch:
    """Returns the switch of an activation function that the target computes along with what is in front of it."""

    def switch(target: Target, on: bool) -> Target:
        kept = {name: others for name, others in target.fused.items() if name != op_type}
        return replace(target, fused=MappingProxyType(kept | ({op_type: producers} if on else {})))

    return switch


def behind_products(target: Target, on: bool) -> Target:
    """The target computes an Add along with the Mul in front of it."""
    kept = {name: others for name, others in target.fused.items() if name != "Add"}
    return replace(target, fused=MappingProxyType(kept | ({"Add": frozenset({"Mul"})} if on else {})))


def _behind_normalizations(target: Target, on: bool) -> Target:
    """The target computes activation functions along with an InstanceNormalization."""
    types = frozenset({"InstanceNormalization"})
    changed = {name: others | types if on else others - types for name, others in target.fused.items()}
    return replace(target, fused=MappingProxyType(changed))


def _limit(name: str) -> Switch:
    """A rule of `quarkfast.targets.constraints.shift_rules` holds."""

    def switch(target: Target, on: bool) -> Target:
        limits = tuple(
            replace(each, off=each.off - {name} if on else each.off | {name}) if isinstance(each, ShiftLimits) else each
            for each in target.constraints
        )
        off = next(each.off for each in limits if isinstance(each, ShiftLimits))
        aligned = {op_type for op_type in ALIGNED if ("concat" if op_type == "Concat" else "pool") not in off}
        return replace(target, constraints=limits, one_scale=frozenset(aligned))

    return switch


def _conversion(row: Conversion) -> Switch:
    """The float model is rewritten in front of calibration."""

    def switch(target: Target, on: bool) -> Target:
        wanted = {*target.conversions, row} if on else {*target.conversions} - {row}
        return replace(target, conversions=tuple(each for each in CONVERSIONS.values() if each in wanted))

    return switch


def _simulation(row: Simulation) -> Switch:
    """The result computes as the accelerator does."""

    def switch(target: Target, on: bool) -> Target:
        wanted = {*target.simulations, row} if on else {*target.simulations} - {row}
        return replace(target, simulations=tuple(each for each in SIMULATIONS.values() if each in wanted))

    return switch


def _hard_sigmoid(target: Target, on: bool) -> Target:
    """Sigmoid is HardSigmoid, whose scales have limits."""
    gates = frozenset({"HardSigmoid", "Sigmoid"} if on else {"HardSigmoid"})
    limits = tuple(replace(each, gates=gates) if isinstance(each, ShiftLimits) else each for each in target.constraints)
    return _simulation(SIMULATIONS["dpu_sigmoid"])(replace(target, constraints=limits), on)


FUSED: Mapping[str, Switch] = MappingProxyType(
    {
        "fuse_clip": fusion("Clip", RYZENAI_PRODUCERS),
        "fuse_gelu": fusion("Gelu", RYZENAI_PRODUCERS),
        "fuse_instance_norm": _behind_normalizations,
        "fuse_leaky_relu": fusion("LeakyRelu", RYZENAI_PRODUCERS),
        "fuse_mul_add": behind_products,
        "fuse_prelu": fusion("PRelu", RYZENAI_PRODUCERS),
        "fuse_relu": fusion("Relu", RYZENAI_PRODUCERS),
    }
)
"""Activation functions that Ryzen AI computes along."""

CONVERTED: Mapping[str, Switch] = MappingProxyType({name: _conversion(row) for name, row in CONVERSIONS.items()})
"""Operators that become others, which NPUs have."""

SIMULATED: Mapping[str, Switch] = MappingProxyType(
    {name: _simulation(row) for name, row in SIMULATIONS.items()} | {"dpu_sigmoid": _hard_sigmoid}
)
"""Operators that the accelerator of Ryzen AI's CNNs computes otherwise than ONNX."""

CONSTANT_MATMUL: Mapping[str, Switch] = MappingProxyType({"constant_matmul": _weights_only})
"""What any target with a rule for MatMul may have."""

FLOAT_SCALES: Mapping[str, Switch] = MappingProxyType(
    {
        **CONSTANT_MATMUL,
        "concat": _join,
        "elementwise_constants": _like_activations,
        "pool": _pass_averages,
    }
)
"""What targets of float scales may have."""

SHIFTS: Mapping[str, Switch] = MappingProxyType({name: _limit(name) for name in NAMES})
"""Limits of XINT8's accelerator."""
