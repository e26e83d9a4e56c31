"""Quark's choice for transformers on Ryzen AI: matrix products with constant weights, everything else float."""

from types import MappingProxyType

from quarkfast.targets.rules import Rule, constant_weight, rows
from quarkfast.targets.switches import CONSTANT_MATMUL, CONVERTED
from quarkfast.targets.target import Target
from quarkfast.transforms.write_conv_attributes import write_conv_attributes

__all__ = ["RYZENAI_TRANSFORMER"]

RYZENAI_TRANSFORMER = Target(
    name="ryzenai-transformer",
    rules=MappingProxyType(rows(Rule(inputs=(0, 1), objection=constant_weight(1)), "Gemm", "MatMul")),
    switches=MappingProxyType({**CONSTANT_MATMUL, **CONVERTED}),
    transforms=(write_conv_attributes,),
)
