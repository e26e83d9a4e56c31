"""Where Q/DQ pairs go (rules as data), with which numbers (a frozen plan), and their insertion."""

from quarkfast.graph.placement import BiasSlot, ConstantSlot, Edge, LeftFloat, Placement
from quarkfast.graph.plan import Plan, Quantizer
from quarkfast.qdq.conflicts import resolve_conflicts
from quarkfast.qdq.dynamic import insert_dynamic
from quarkfast.qdq.findings import Findings, find_findings
from quarkfast.qdq.freeze import freeze, needs_ranges
from quarkfast.qdq.insert import insert
from quarkfast.qdq.nodes import lowest_opset
from quarkfast.qdq.observed import observed_channels, observed_tensors
from quarkfast.qdq.place import place
from quarkfast.qdq.portable import saturation_note
from quarkfast.qdq.targets import TARGETS, Target

__all__ = [
    "TARGETS",
    "BiasSlot",
    "ConstantSlot",
    "Edge",
    "Findings",
    "LeftFloat",
    "Placement",
    "Plan",
    "Quantizer",
    "Target",
    "find_findings",
    "freeze",
    "insert",
    "insert_dynamic",
    "lowest_opset",
    "needs_ranges",
    "observed_channels",
    "observed_tensors",
    "place",
    "resolve_conflicts",
    "saturation_note",
]
