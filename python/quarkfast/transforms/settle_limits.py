"""Clips and Relus in front of codes that end at the same limits: removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard
from quarkfast.graph.builder import drop_unread, set_constant
from quarkfast.graph.walks import clip_limits

__all__ = ["LastCode", "drop_upper_limits", "settle_limits"]


def settle_limits(clips: Iterable[ir.Node]) -> bool:
    """Moves limits whose code is the first or the last onto the value of that code; returns whether there was one.

    ONNX Runtime drops a Clip whose limits hold all that codes stand for, and runs the layer in front of it on codes. A
    limit that is off by the rounding of a scale to float32 keeps it. Error: none, in codes.

    Args:
        clips: Nodes of operator set 11 or newer, whose limits are constants of their own.
    """
    settled = False
    for clip in clips:
        reader = next((node for node, _ in clip.outputs[0].uses()), None)
        if reader is None or not is_read_once(clip.outputs[0]) or reader.op_type != "QuantizeLinear":
            continue
        if not all(map(is_constant, reader.inputs[1:3])):
            continue
        scale, zero_point = (array_of(value).reshape(-1) for value in reader.inputs[1:3])
        if scale.size != 1:
            continue
        row = qtype(str(zero_point.dtype))
        for limit, code, sign in zip(clip.inputs[1:3], (row.qmin, row.qmax), (-1, 1), strict=False):
            if limit is None:
                continue
            # As ONNX Runtime computes what the code stands for.
            end = np.float32(code - float(zero_point[0])) * scale[0]
            own = np.rint(array_of(limit) / scale[0]) + float(zero_point[0])
            if sign * own >= sign * code and array_of(limit) != end:
                set_constant(limit, np.array(end, np.float32))
                settled = True
    return settled


class LastCode(NamedTuple):
    """The last of symmetric codes, and the scale."""

    code: int
    scale: float


def drop_upper_limits(graph: ir.Graph, ends: Mapping[str, LastCode]) -> list[ir.Node]:
    """Makes a Relu of each Clip from zero up whose limit has the last code or lies beyond; returns these.

    Devices compute a Relu along with the layer in front of it, but no Clip, unless it is ReLU6. Error: none, in codes.

    Args:
        graph: Of operator set 11 or newer; changed in place.
        ends: Of activations, by tensor.

    Example:
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '
        ...                           '<float low = {0}, float high = {6}> { y = Clip (x, low, high) }')
        >>> drop_upper_limits(model.graph, {"y": LastCode(127, 1 / 16)})
        []
        >>> [node.op_type for node in drop_upper_limits(model.graph, {"y": LastCode(127, 1 / 32)})]
        ['Relu']
    """
    dropped = []
    for node in graph:
        end = ends.get(node.outputs[0].name or "") if node.op_type == "Clip" and is_standard(node) else None
        low, high = (None if end is None else clip_limits(node)) or (None, None)
        if end is not None and low == 0 and high is not None and np.rint(high / end.scale) >= end.code:
            node.op_type = "Relu"
            node.resize_inputs(1)
            dropped.append(node)
    if dropped:
        drop_unread(graph)
    return dropped
