"""Constraints of targets on scales, after these were computed from ranges."""

from quarkfast.targets.constraints.shift_limits import limit_shifts

__all__ = ["limit_shifts"]
