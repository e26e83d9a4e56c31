"""Targets: what a device wants of a quantized model."""

from quarkfast.targets.tables import TARGETS, Target

__all__ = ["TARGETS", "Target"]
