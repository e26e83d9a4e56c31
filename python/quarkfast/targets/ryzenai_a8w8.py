"""Ryzen AI's NPU in int8 and int16 with float scales (A8W8, A16W8)."""

from types import MappingProxyType

from quarkfast.config import Scheme
from quarkfast.targets.checks.audits import bias_scales, float_layers, scales, types
from quarkfast.targets.checks.operator_support import A8W8, A16W8, Device
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.conversions import CONVERSIONS
from quarkfast.targets.rules import RYZENAI, RYZENAI_FUSED
from quarkfast.targets.switches import CONVERTED, FLOAT_SCALES, FUSED, SIMULATED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_A8W8"]


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
