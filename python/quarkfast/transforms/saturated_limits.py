"""Limits in front of a QuantizeLinear whose codes end there as well."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of, is_constant, is_read_once
from quarkfast.graph.limits import clip_limits
from quarkfast.graph.rewriting import absorb

__all__ = ["remove_saturated_limits"]


def remove_saturated_limits(model: ir.Model, clips: Iterable[ir.Node]) -> bool:
    """Removes those of `clips` that change no code of the QuantizeLinear behind them; returns whether there was one.

    A Clip goes where the first and the last code hold its limits or lie within them, nothing but the QuantizeLinear
    reads it, and nothing but the Clip reads what it clips, which takes over its name. Error: none.
    """
    removed = False
    for clip in clips:
        source = clip.inputs[0]
        layer = None if source is None else source.producer()
        reader = next((node for node, _ in clip.outputs[0].uses()), None)
        if source is None or layer is None or reader is None or source is not layer.outputs[0]:
            continue
        if is_read_once(source) and is_read_once(clip.outputs[0]) and _saturates(reader, clip):
            absorb(model.graph, clip, layer)
            removed = True
    return removed


def _saturates(reader: ir.Node, clip: ir.Node) -> bool:
    """Whether every number beyond the limits has the code of the limit."""
    limits = clip_limits(clip)
    if reader.op_type != "QuantizeLinear" or limits is None or not all(map(is_constant, reader.inputs[1:3])):
        return False
    scale, zero_point = (array_of(value) for value in reader.inputs[1:3])
    if scale.size != 1:
        return False
    row = qtype(str(zero_point.dtype))
    codes = [None if limit is None else np.rint(limit / scale.item()) + zero_point.item() for limit in limits]
    low, high = codes
    return (low is None or low <= row.qmin) and (high is None or high >= row.qmax)
