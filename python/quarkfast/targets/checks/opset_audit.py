"""Whether the operator set of a model has its QuantizeLinear and DequantizeLinear: no runtime loads another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.formats import ScalarFormat, find
from quarkfast.graph.access import name_of
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import codes_of_pair
from quarkfast.targets.checks.finding import Finding

__all__ = ["operator_sets"]

_NODES = ("QuantizeLinear", "DequantizeLinear")
# The first operator set with these nodes, with a scale for each channel, and with scales in other types than float32.
_FIRST, _CHANNELS, _SCALES = 10, 13, 19


def operator_sets(model: ir.Model) -> Iterator[Finding]:
    """Yields a finding for the first standard node of a pair that a later operator set brought than the model has.

    It is no matter of the device: a target's audits see nodes of onnxruntime's domain as standard ones.
    """
    version = opset_version(model)
    for node in nodes_of(model.graph):
        if node.op_type in _NODES and node.domain in ("", "ai.onnx"):
            needed, what = _needed(node)
            if needed > version:
                text = f"expected operator set {needed}, which has {node.op_type} {what}, or newer, got {version}"
                yield Finding("opset", "error", name_of(node), f"model: {text}")
                return


def _needed(node: ir.Node) -> tuple[int, str]:
    """Returns the first operator set that has a node, and what it is that a later one brought."""
    codes, found = codes_of_pair(node), [(_FIRST, "at all")]
    if codes is not None and codes.scale.size > 1:
        found.append((_CHANNELS, "with a scale for each channel"))
    if codes is not None and codes.scale.dtype != np.float32:
        found.append((_SCALES, f"with scales in {codes.scale.dtype}"))
    if codes is not None and codes.dtype is not None:
        name = codes.dtype.name.lower()
        row = find(name)
        since = row.linear_opset if node.op_type == "QuantizeLinear" else row.dequantize_opset
        if isinstance(row, ScalarFormat) and since is not None:
            found.append((since, f"with {name}"))
    return max(found)
