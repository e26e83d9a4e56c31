"""Quark's option keys, one row each: which values do something, which hold anyway, and why others are refused.

The checks of :mod:`quarkfast.config.quark.extra_options` and the page docs/quark_keys.md read these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.config.options import OPTIONS
from quarkfast.config.quark.keys.model import NPU, PREPARATION, RUNNING
from quarkfast.config.quark.keys.quantization import ALGORITHMS, CALIBRATION, PLACEMENT, SELECTION, TYPES
from quarkfast.config.quark.keys.row import Family, Key, accepts, family_of, holds, words_of

__all__ = [
    "CONVERTED",
    "GROUPS",
    "KEYS",
    "LIMITS",
    "SIMULATED",
    "Family",
    "Key",
    "accepts",
    "family_of",
    "holds",
    "words_of",
]

_GROUPS = {
    "Preparation": PREPARATION,
    "What is quantized": SELECTION,
    "Types and scales": TYPES,
    "Placement of Q/DQ pairs": PLACEMENT,
    "Calibration": CALIBRATION,
    "The NPU's CNNs": NPU,
    "Algorithms": ALGORITHMS,
    "How Quark itself runs": RUNNING,
}


def _options() -> tuple[Key, ...]:
    """Returns the rows of keys that are options, which the table of options describes."""
    written = {row.name for rows in _GROUPS.values() for row in rows}
    return tuple(
        Key(option.quark_key, f"option `{option.name}`", honoured=option.kind.expects)
        for option in OPTIONS.values()
        if option.quark_key is not None and option.quark_key not in written
    )


GROUPS: Mapping[str, tuple[Key, ...]] = MappingProxyType({**_GROUPS, "Options by another name": _options()})
"""Heading -> rows, in the order of the page."""

SIMULATED = tuple(row for row in NPU if row.constraint.startswith("dpu_"))
"""The rows of what `SimulateDPU` turns off."""

LIMITS = tuple(row for row in NPU if row.constraint and row not in SIMULATED)
"""The rows of what `NPULimitationCheck` turns off."""

CONVERTED = tuple(row for row in PREPARATION if row.constraint)
"""The rows of operators that become others."""

KEYS: Mapping[str, Key] = MappingProxyType({row.name: row for rows in GROUPS.values() for row in rows})
"""Key -> row."""
