"""Whether layers are quantized, and whether its scales are numbers that codes can be multiplied by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import codes_of_pair, is_pair, reads_floats
from quarkfast.targets.checks.finding import Finding, Takes

__all__ = ["float_layers", "scales"]


def scales(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each scale that is not positive and finite, and for each that is computed as the model runs.

    ONNX says nothing of such scales; ONNX Runtime divides by them.
    """
    seen = set()
    for node in filter(is_pair, nodes_of(model.graph)):
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is None or name_of(value) in seen:
            continue
        seen.add(name_of(value))
        codes = codes_of_pair(node)
        if codes is None:
            text = f"{name_of(value)!r}: expected a constant scale and zero point, got ones that are computed"
            yield Finding("scale", "error", name_of(node), text)
            continue
        found = codes.scale.astype(np.float64).ravel()
        wrong = found[~(np.isfinite(found) & (found > 0))]
        if wrong.size:
            text = f"{name_of(value)!r}: expected positive, finite scales, got {wrong[0]:g}"
            yield Finding("scale", "error", name_of(node), text)


def float_layers(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each type of layer with weights of which some read floats, or one if all of all types do."""
    total = 0
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes_of(model.graph):
        total += find_operator(node) is not None
        if reads_floats(node):
            found[node.op_type].append(name_of(node))
    if total and total == sum(map(len, found.values())):
        text = "model: expected layers that read codes behind DequantizeLinear, got none"
        yield Finding("float", "error", "", text)
        return
    for op_type, names in found.items():
        text = f"{len(names)} {op_type} read floats and run on the CPU; the first is {names[0]!r}"
        yield Finding("float", "warning", names[0], text)
