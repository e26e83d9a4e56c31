"""Block formats in front of products alone: operands whose products are added up along the blocks.

Source: OCP Microscaling Formats 1.0, section 6; B. Rouhani et al., "With Shared Microexponents, A Little Shifting Goes
a Long Way", 2023. Everything else computes in float. The tables that Gather reads are most of the bytes of many models,
so they are stored that way too.
"""

from types import MappingProxyType

from quarkfast.targets.rules import LAYERS, RYZENAI, Rule, constant_weight
from quarkfast.targets.switches import CONVERTED
from quarkfast.targets.target import Target

__all__ = ["DOT_PRODUCTS"]

_CONTRIB = ("Attention", "FusedConv", "FusedGemm", "FusedMatMul", "GroupQueryAttention", "MultiHeadAttention")

DOT_PRODUCTS = Target(
    name="dot-products",
    rules=MappingProxyType(
        {
            **LAYERS,
            "Gather": Rule(inputs=(0,), objection=constant_weight(0)),
            **{key: RYZENAI[key] for key in (f"com.microsoft::{name}" for name in _CONTRIB)},
        }
    ),
    operands_only=True,
    switches=CONVERTED,
    bias="float",
)
