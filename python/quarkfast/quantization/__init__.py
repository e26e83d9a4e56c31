"""Quantization: where it goes (placement), with which scales and zero points, and what there is to say about it."""

from quarkfast.quantization.compute_qparams import freeze, needs_ranges
from quarkfast.quantization.diagnostics import Findings, find_findings
from quarkfast.quantization.observed import observed_channels, observed_tensors
from quarkfast.quantization.place import place
from quarkfast.quantization.portable_weights import is_portable, saturation_note
from quarkfast.quantization.scale_conflicts import resolve_conflicts

__all__ = [
    "Findings",
    "find_findings",
    "freeze",
    "is_portable",
    "needs_ranges",
    "observed_channels",
    "observed_tensors",
    "place",
    "resolve_conflicts",
    "saturation_note",
]
