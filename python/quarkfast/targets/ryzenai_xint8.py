"""Ryzen AI's NPU in int8 with power-of-two scales (XINT8): it shifts where others multiply."""

from types import MappingProxyType

from quarkfast.targets.checks.audits import fixed_points, float_layers, scales, shifts, types
from quarkfast.targets.checks.operator_support import XINT8
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.constraints import ALIGNED, ShiftLimits
from quarkfast.targets.conversions import CONVERSIONS, DPU
from quarkfast.targets.rules import RYZENAI_FUSED, RYZENAI_SHIFTS
from quarkfast.targets.switches import CONSTANT_MATMUL, CONVERTED, FUSED, SHIFTS, SIMULATED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_XINT8"]

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
