"""Targets: what a device wants of a quantized model, one row each here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.targets.conversions import CONVERSIONS, Conversion
from quarkfast.targets.dot_products import DOT_PRODUCTS
from quarkfast.targets.ort_cpu import ORT_CPU
from quarkfast.targets.ort_dynamic import ORT_DYNAMIC
from quarkfast.targets.rules import Flow, Rule
from quarkfast.targets.ryzenai import RYZENAI_A8W8, RYZENAI_BF16, RYZENAI_TRANSFORMER, RYZENAI_VINT8, RYZENAI_XINT8
from quarkfast.targets.target import Check, Constraint, Target, Transform

__all__ = [
    "CONVERSIONS",
    "TARGETS",
    "Check",
    "Constraint",
    "Conversion",
    "Flow",
    "Rule",
    "Target",
    "Transform",
    "find_target",
]

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            RYZENAI_A8W8,
            RYZENAI_XINT8,
            RYZENAI_VINT8,
            RYZENAI_BF16,
            ORT_CPU,
            RYZENAI_TRANSFORMER,
            ORT_DYNAMIC,
            DOT_PRODUCTS,
        )
    }
)
"""Name -> target."""


def find_target(name: str) -> Target:
    """Returns the target called `name`.

    Raises:
        ConfigError: If there is no such target.

    Example:
        >>> find_target("ort-cpu").constants
        'activation'
    """
    target = TARGETS.get(name)
    if target is None:
        raise ConfigError(f"target: expected one of {', '.join(TARGETS)}, got {name!r}{did_you_mean(name, TARGETS)}")
    return target
