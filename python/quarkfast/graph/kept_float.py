"""Nodes that rewrites add to be computed in float, whatever a target quantizes."""

from __future__ import annotations

from quarkfast.deferred import ir

__all__ = ["keep_float", "why_kept_float"]

_REASON = "quarkfast.float"


def keep_float(node: ir.Node, reason: str) -> None:
    """Has placement leave `node` float; what it reads, and what float nodes make of it, has no pair in front of it."""
    node.meta[_REASON] = reason


def why_kept_float(node: ir.Node) -> str:
    """Returns the reason, empty if there is none."""
    reason: str = node.meta.get(_REASON, "")
    return reason
