"""Ryzen AI's VAIML compiler in int8 with power-of-two scales (Quark's VINT8): XINT8 without limits of shifts."""

from types import MappingProxyType

from quarkfast.targets.checks.audits import fixed_points, float_layers, scales, types
from quarkfast.targets.checks.operator_support import A8W8
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.conversions import CONVERSIONS
from quarkfast.targets.rules import RYZENAI, RYZENAI_FUSED
from quarkfast.targets.switches import CONVERTED, FLOAT_SCALES, FUSED, SIMULATED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_VINT8"]

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
