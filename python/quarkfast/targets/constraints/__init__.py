"""Constraints of targets on scales, after these were computed from ranges."""

from quarkfast.targets.constraints.shift_limits import ShiftLimits, limit_shifts
from quarkfast.targets.constraints.shift_rules import ALIGNED

__all__ = ["ALIGNED", "ShiftLimits", "limit_shifts"]
