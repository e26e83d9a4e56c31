"""Ryzen AI's NPU in int8 with power-of-two scales (XINT8): it shifts where others multiply."""

from quarkfast.targets.checks.operator_support import XINT8
from quarkfast.targets.checks.ryzenai import ryzenai_checks
from quarkfast.targets.constraints import ALIGNED, limit_shifts
from quarkfast.targets.rule_tables import RYZENAI, RYZENAI_FUSED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_XINT8"]

RYZENAI_XINT8 = Target(
    name="ryzenai-xint8",
    rules=RYZENAI,
    fused=RYZENAI_FUSED,
    bias="weight",
    activation_types=("int8", "uint8"),
    weight_types=("int8",),
    alternative="A8W8",
    per_channel=False,
    one_scale=frozenset(ALIGNED),
    transforms=(write_conv_attributes,),
    constraints=(limit_shifts,),
    checks=ryzenai_checks(lambda scheme: XINT8),
)
