"""Targets of Ryzen AI: integers with float scales, powers of two, bfloat16 and blocks, and transformers."""

from types import MappingProxyType

from quarkfast.config import Scheme
from quarkfast.targets.checks.audits import bias_scales, fixed_points, float_layers, float_types, scales, shifts, types
from quarkfast.targets.checks.operator_support import A8W8, A16W8, BF16, XINT8, Device
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.constraints import ALIGNED, ShiftLimits
from quarkfast.targets.conversions import CONVERSIONS, DPU
from quarkfast.targets.rules import RYZENAI, RYZENAI_FUSED, RYZENAI_SHIFTS, Rule, constant_weight, rows
from quarkfast.targets.switches import CONSTANT_MATMUL, CONVERTED, FLOAT_SCALES, FUSED, SHIFTS, SIMULATED
from quarkfast.targets.target import Target
from quarkfast.transforms.convert_operators import write_conv_attributes

__all__ = ["RYZENAI_A8W8", "RYZENAI_BF16", "RYZENAI_TRANSFORMER", "RYZENAI_VINT8", "RYZENAI_XINT8"]


def _device(scheme: Scheme) -> Device:
    row = scheme.activation.format
    return A16W8 if row.is_integer and row.bits == 16 else A8W8


RYZENAI_A8W8 = Target(
    name="ryzenai-a8w8",
    rules=RYZENAI,
    fused=RYZENAI_FUSED,
    switches=MappingProxyType({**FLOAT_SCALES, **FUSED, **CONVERTED, **SIMULATED}),
    conversions=tuple(CONVERSIONS.values()),
    transforms=(write_conv_attributes,),
    checks=ryzenai_checks(_device),
    audits=(float_layers, scales, types, bias_scales),
)


RYZENAI_BF16 = Target(
    name="ryzenai-bf16",
    rules=RYZENAI,
    fused=RYZENAI_FUSED,
    switches=MappingProxyType({**FLOAT_SCALES, **FUSED, **CONVERTED}),
    transforms=(write_conv_attributes,),
    checks=ryzenai_checks(lambda scheme: BF16),
    audits=(scales, float_types),
)


RYZENAI_TRANSFORMER = Target(
    name="ryzenai-transformer",
    rules=MappingProxyType(rows(Rule(inputs=(0, 1), objection=constant_weight(1)), "Gemm", "MatMul")),
    switches=MappingProxyType({**CONSTANT_MATMUL, **CONVERTED}),
    transforms=(write_conv_attributes,),
)


# AMD documents neither the types nor the operators of this form; both are those of Quark's preset (specification of
# Quark, 1.6 and 13) and of its other int8 form.
RYZENAI_VINT8 = Target(
    name="ryzenai-vint8",
    rules=RYZENAI,
    fused=RYZENAI_FUSED,
    bias="weight",
    activation_types=("int8",),
    weight_types=("int8",),
    alternative="A8W8",
    scales=("power_of_two",),
    per_channel=False,
    switches=MappingProxyType({**FLOAT_SCALES, **FUSED, **CONVERTED, **SIMULATED}),
    conversions=tuple(CONVERSIONS.values()),
    transforms=(write_conv_attributes,),
    checks=ryzenai_checks(lambda scheme: A8W8),
    audits=(float_layers, scales, types, fixed_points),
)


RYZENAI_XINT8 = Target(
    name="ryzenai-xint8",
    rules=RYZENAI_SHIFTS,
    fused=RYZENAI_FUSED,
    bias="weight",
    activation_types=("int8", "uint8"),
    weight_types=("int8",),
    alternative="A8W8",
    per_channel=False,
    one_scale=frozenset(ALIGNED),
    conversions=tuple(CONVERSIONS.values()),
    transforms=(write_conv_attributes,),
    constraints=(ShiftLimits(),),
    simulations=DPU,
    switches=MappingProxyType({**SHIFTS, **FUSED, **CONSTANT_MATMUL, **CONVERTED, **SIMULATED}),
    checks=ryzenai_checks(lambda scheme: XINT8),
    audits=(float_layers, scales, types, fixed_points, shifts),
)
