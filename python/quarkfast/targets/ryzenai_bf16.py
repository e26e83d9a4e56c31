"""Ryzen AI's NPU in bfloat16, float16 and BFP16."""

from types import MappingProxyType

from quarkfast.targets.checks.audits import float_types, scales
from quarkfast.targets.checks.operator_support import BF16
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.rules import RYZENAI, RYZENAI_FUSED
from quarkfast.targets.switches import CONVERTED, FLOAT_SCALES, FUSED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_BF16"]

RYZENAI_BF16 = Target(
    name="ryzenai-bf16",
    rules=RYZENAI,
    fused=RYZENAI_FUSED,
    switches=MappingProxyType({**FLOAT_SCALES, **FUSED, **CONVERTED}),
    transforms=(write_conv_attributes,),
    checks=ryzenai_checks(lambda scheme: BF16),
    audits=(scales, float_types),
)
