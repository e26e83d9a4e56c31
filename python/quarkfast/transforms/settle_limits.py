"""Limits in front of a QuantizeLinear whose codes end there as well."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of, is_constant, is_read_once
from quarkfast.graph.builder import set_constant

__all__ = ["settle_limits"]


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
