"""The step that follows scale alignment once scales are final: limits that codes imply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import name_of
from quarkfast.pipeline.context import Context
from quarkfast.transforms.settle_limits import LastCode, drop_upper_limits

__all__ = ["aligns_scales", "drop_aligned_limits"]


def aligns_scales(context: Context) -> bool:
    """Whether the scheme asks for scale alignment."""
    return context.scheme.aligned


def drop_aligned_limits(context: Context) -> bool:
    """Makes a Relu of each Clip whose limit a factor has moved, where it has the last code or lies beyond."""
    assert context.plan is not None
    quantizers = context.plan.quantizers
    ends = {
        name: LastCode(int(qtype(quantizers[name].dtype).qmax), float(quantizers[name].scale))
        for name in context.factors
        if name in quantizers and quantizers[name].scale.size == 1 and not np.any(quantizers[name].zero_point)
    }
    dropped = drop_upper_limits(context.model.graph, ends)
    if dropped:
        reason = "codes end where they limit, and devices compute it along with a layer"
        context.notes.append(f"{len(dropped)} Clip became Relu: {reason}")
        quantized = {**context.placement.quantized, **{name_of(node): node.op_type for node in dropped}}
        context.placement = replace(context.placement, quantized=quantized)
    return bool(dropped)
