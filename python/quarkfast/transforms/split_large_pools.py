"""A pool over more places than the accelerator has room for becomes two, one behind the other."""

from __future__ import annotations

import math

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.builder import GraphBuilder

__all__ = ["LARGEST_WINDOW", "split_large_pools"]

LARGEST_WINDOW = 512
"""Places that the accelerator averages at once (specification of Quark, ``SplitLargeKernelPool``)."""


def split_large_pools(model: ir.Model) -> bool:
    """Puts an AveragePool in front of each GlobalAveragePool over more than 512 places; returns whether there was one.

    1. Its input has four dimensions, the last two of which are known. Each is cut into as many windows as the larger of
       the two factors nearest to its square root, so that all windows have one size and the mean of their means is the
       mean of all.
    2. Where a window or their number is more than 512 still, the pool stays as it is.
    3. The new tensor and node are called after the input, with ``_Split`` behind it.

    Idempotent; graph inputs and outputs are kept; error: that of a sum in another order.
    """
    builder, split = GraphBuilder(model), False
    for node in tuple(model.graph):
        if is_standard(node) and node.op_type == "GlobalAveragePool" and (window := _window(node.inputs[0])):
            _put_pool_before(builder, node, window)
            split = True
    return split


def _window(data: ir.Value | None) -> list[int]:
    """Returns the size of the windows to cut the last two dimensions into; empty where nothing is to be cut."""
    if data is None or data.shape is None or len(data.shape) != 4:
        return []
    sizes = [size for size in data.shape[2:] if isinstance(size, int) and size > 0]
    if len(sizes) < 2 or math.prod(sizes) <= LARGEST_WINDOW:
        return []
    window = [_factor(size) for size in sizes]
    count = math.prod(sizes) // math.prod(window)
    return window if max(math.prod(window), count) <= LARGEST_WINDOW else []


def _factor(size: int) -> int:
    """Returns the largest factor of `size` that is no larger than its square root."""
    return next(factor for factor in range(math.isqrt(size), 0, -1) if size % factor == 0)


def _put_pool_before(builder: GraphBuilder, node: ir.Node, window: list[int]) -> None:
    data = node.inputs[0]
    assert data is not None
    assert data.shape is not None
    assert node.graph is not None
    name = builder.fresh(f"{name_of(data)}_Split")
    pool = ir.node("AveragePool", [data], {"kernel_shape": window, "strides": window}, name=name)
    sizes = [size // step for size, step in zip(data.shape[2:], window, strict=True) if isinstance(size, int)]
    result = pool.outputs[0]
    result.name, result.type, result.shape = name, data.type, ir.Shape([*data.shape[:2], *sizes])
    node.graph.insert_before(node, pool)
    node.replace_input_with(0, result)
