"""Records: what a plan did to each node and tensor, for summaries, reports and searches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.deferred import ir
from quarkfast.formats import find
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of_tensor, is_constant, name_of, rank_of, shape_of
from quarkfast.graph.functions import inner_tensors
from quarkfast.graph.operators import find_operator
from quarkfast.graph.placement import LeftFloat, Quantizer
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.kernels.statistics import HISTOGRAM_SIDE
from quarkfast.quantization.plan import Plan, QuantizedBlocks, QuantizedTensor
from quarkfast.ranges.summary import TensorSummary

__all__ = ["Bins", "Channels", "NodeRecord", "Records", "TensorRecord", "record_nodes", "record_plan"]


class Bins(NamedTuple):
    """A histogram of at most 64 bars of one width.

    Attributes:
        low: Where the first bar begins.
        width: Width of a bar.
        counts: Values in each bar, uint64.
    """

    low: float
    width: float
    counts: NDArray[np.uint64]


class Channels(NamedTuple):
    """Extremes along the output channels of a weight; neighbours share a column where there are more than 64.

    Attributes:
        number: How many channels there are.
        low: Least value in each column, float32.
        high: Greatest value in each column, float32.
        reach: Largest magnitude that the codes of each column hold, float32; the greatest of its channels'.
    """

    number: int
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    reach: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TensorRecord:
    """What is known of one tensor that is quantized.

    Attributes:
        name: As the prepared model has it.
        kind: ``"activation"``, ``"weight"`` of a layer, ``"constant"`` of another operator, or ``"bias"``.
        dtype: Type of its codes.
        shape: Dimensions of a constant; None for an activation.
        scales: Number of scales: 1, one a channel, or 0 for a type without.
        scale: The largest scale; None without.
        zero_point: That of the only scale; None where there are more or none.
        seen: Least and greatest finite value: of the samples, or of the constant; None where unknown.
        kept: What the codes reach from and to; None without scales.
        sqnr: Expected ratio of signal to the tensor's own quantization noise in dB; None where unknown.
        clipped: Share of the values (0 to 1) in bins of the full histogram that lie as a whole outside of what is kept.
        bins: Its histogram, where one was gathered; every so many values of a large constant.
        channels: Extremes of the output channels of a weight.
        root: The tensor whose scale it has; None for its own.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...] | None = None
    scales: int = 0
    scale: float | None = None
    zero_point: int | None = None
    seen: tuple[float, float] | None = None
    kept: tuple[float, float] | None = None
    sqnr: float | None = None
    clipped: float | None = None
    bins: Bins | None = None
    channels: Channels | None = None
    root: str | None = None


class NodeRecord(NamedTuple):
    """One node in front of quantization.

    Attributes:
        name: Its name.
        op_type: Its operator.
        state: ``"quantized"``, ``"float"``, or ``"other"`` for what computes on no floats.
        reason: Why it stays float; else empty.
        inputs: Names of the tensors that it reads.
        outputs: And of those that it computes.
    """

    name: str
    op_type: str
    state: str
    reason: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Records(NamedTuple):
    """Every node in the order in which they run, and every quantized tensor, by name.

    Where a constant has two forms, the record is that of the first.

    Attributes:
        nodes: Of the prepared model.
        tensors: Of it, by name.
        inner: Names of what functions that are written out as many nodes compute on their way
            (`quarkfast.graph.functions`).
    """

    nodes: tuple[NodeRecord, ...] = ()
    tensors: Mapping[str, TensorRecord] = MappingProxyType({})
    inner: frozenset[str] = frozenset()


# Bars of a histogram and columns of channels that are kept: as many as a telephone shows apart.
_BARS = 64

# Values of a constant that its histogram counts: 0.05 ms, and a share of 1/16 is known to 1.5 % of itself.
_COUNTED = 1 << 16


def record_nodes(
    model: ir.Model, quantized: Mapping[str, str], left_float: Sequence[LeftFloat]
) -> tuple[NodeRecord, ...]:
    """Returns a record of each node of a prepared model, those of bodies among them."""
    reasons = {left.node: left.reason for left in left_float}
    found = []
    for node in nodes_of(model.graph):
        name = name_of(node)
        state = "quantized" if name in quantized else "float" if name in reasons else "other"
        if node.op_type == "Constant" and state == "other":
            continue
        inputs = tuple(name_of(value) for value in node.inputs if value is not None)
        outputs = tuple(name_of(value) for value in node.outputs)
        found.append(NodeRecord(name, node.op_type, state, reasons.get(name, ""), inputs, outputs))
    return tuple(found)


def record_plan(
    model: ir.Model, plan: Plan, statistics: Mapping[str, TensorSummary], sqnr: Mapping[str, float]
) -> Records:
    """Returns what there is to show of a plan.

    Args:
        model: The prepared model, before the plan is written into it.
        plan: The plan.
        statistics: What calibration gathered, by tensor.
        sqnr: Expected ratio of signal to noise in dB, by tensor (`quarkfast.quantization.diagnose`).
    """
    tensors: dict[str, TensorRecord] = {}
    for name, root in plan.activations.items():
        quantizer = plan.quantizers.get(root)
        if quantizer is not None:
            tensors[name] = _activation(name, quantizer, statistics.get(name), sqnr.get(name), root)
    # The axis of the output channels of each weight, by its name.
    axes: dict[str, int] = {}
    for node in nodes_of(model.graph):
        operator = find_operator(node)
        value = None if operator is None or operator.weight >= len(node.inputs) else node.inputs[operator.weight]
        if operator is not None and value is not None and is_constant(value) and rank_of(value) > 1:
            axes[name_of(value)] = operator.channel_axis(node, rank_of(value))
    for slot, weight in plan.constants:
        if slot.tensor not in tensors:
            kind = "constant" if slot.role == "activation" else "weight"
            tensors[slot.tensor] = _constant(slot.tensor, kind, weight, axes.get(slot.tensor), sqnr.get(slot.tensor))
    for bias, codes in plan.biases:
        kind, quantizer = "bias", codes.quantizer
        tensors.setdefault(
            bias.tensor, TensorRecord(bias.tensor, kind, quantizer.dtype, codes.shape, **_scales(quantizer))
        )
    nodes = record_nodes(model, plan.placement.quantized, plan.placement.left_float)
    return Records(nodes, tensors, inner_tensors(model.graph))


def _activation(
    name: str, quantizer: Quantizer, found: TensorSummary | None, sqnr: float | None, root: str
) -> TensorRecord:
    """Returns the record of an activation; `found` is None where its range is another's or its operator's."""
    known = found is not None and found.range.min <= found.range.max
    counted = found.histogram if found is not None and known else None
    return TensorRecord(
        name,
        "activation",
        quantizer.dtype,
        **_scales(quantizer),
        seen=(found.range.min, found.range.max) if found is not None and known else None,
        kept=_kept(quantizer),
        sqnr=sqnr,
        clipped=None if counted is None else _clipped(counted, quantizer),
        bins=None if counted is None else _coarse(counted),
        root=None if root == name else root,
    )


def _constant(
    name: str, kind: str, weight: QuantizedTensor | QuantizedBlocks, axis: int | None, sqnr: float | None
) -> TensorRecord:
    values, quantizer, shape = array_of_tensor(weight.values), weight.quantizer, shape_of(weight.values)
    if values.dtype != np.float32 or not values.size:
        return TensorRecord(name, kind, quantizer.dtype, shape, **_scales(quantizer), sqnr=sqnr)
    if values.size == 1:  # the step follows from the value, which therefore is a code
        sqnr = None
    counted = kernels.histogram(_sampled(values))
    channels = None if axis is None else _channels(values, axis, quantizer)
    low, high = kernels.extremes(values) if channels is None else (channels.low.min(), channels.high.max())
    return TensorRecord(
        name,
        kind,
        quantizer.dtype,
        shape,
        **_scales(quantizer),
        seen=(float(low), float(high)),
        kept=_kept(quantizer),
        sqnr=sqnr,
        clipped=_clipped(counted, quantizer) if quantizer.scale.size == 1 else None,
        bins=_coarse(counted),
        channels=channels,
    )


def _scales(quantizer: Quantizer) -> dict[str, Any]:
    """Returns the fields about scales."""
    if not find(quantizer.dtype).is_integer:
        return {}
    single = quantizer.scale.size == 1
    zero_point = int(quantizer.zero_point.item()) if single else None
    return {"scales": quantizer.scale.size, "scale": float(quantizer.scale.max()), "zero_point": zero_point}


def _reach(quantizer: Quantizer) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns what the lowest and the highest code of each scale stand for."""
    row, scale = qtype(quantizer.dtype), quantizer.scale.astype(np.float64)
    qmin = row.qmin if quantizer.qmin is None else quantizer.qmin
    qmax = row.qmax if quantizer.qmax is None else quantizer.qmax
    zero = quantizer.zero_point.astype(np.float64)
    return (qmin - zero) * scale, (qmax - zero) * scale


def _kept(quantizer: Quantizer) -> tuple[float, float] | None:
    if not find(quantizer.dtype).is_integer:
        return None
    low, high = _reach(quantizer)
    return float(low.min()), float(high.max())


def _clipped(counted: kernels.Histogram, quantizer: Quantizer) -> float | None:
    """Returns the share of values in bins that lie more than half a step outside of what is kept, as a whole."""
    kept, total = _kept(quantizer), int(counted.counts.sum())
    if kept is None or not total:
        return None
    edges, half = counted.edges, float(quantizer.scale.max()) / 2
    outside = (edges[1:] < kept[0] - half) | (edges[:-1] > kept[1] + half)
    return int(counted.counts[outside].sum()) / total


def _coarse(counted: kernels.Histogram) -> Bins | None:
    """Returns the bins from the first to the last that hold a value, so many together that 64 remain."""
    filled = np.flatnonzero(counted.counts)
    if not filled.size:
        return None
    first, end, width = int(filled[0]), int(filled[-1]) + 1, 2.0**counted.exponent
    together = math.ceil((end - first) / _BARS)
    bars = np.add.reduceat(counted.counts[first:end], _starts(end - first, together))
    return Bins((first - HISTOGRAM_SIDE) * width, together * width, bars)


def _starts(size: int, together: int) -> NDArray[np.intp]:
    return np.arange(0, size, together)


def _sampled(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns every nth value; n has no divisor in common with the size, so that no channel is left out."""
    step = -(-values.size // _COUNTED)
    while math.gcd(step, values.size) > 1:
        step += 1
    return np.ascontiguousarray(values.reshape(-1)[::step])


def _channels(values: NDArray[np.float32], axis: int, quantizer: Quantizer) -> Channels:
    low, high = kernels.extremes(values, channel_axis=axis)
    starts = _starts(low.size, math.ceil(low.size / _BARS))
    reach = np.zeros(low.size, np.float64)
    if find(quantizer.dtype).is_integer and quantizer.scale.size in (1, low.size):
        lowest, highest = _reach(quantizer)
        reach = np.broadcast_to(np.maximum(-lowest, highest).reshape(-1), low.shape)
    return Channels(
        low.size,
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        np.maximum.reduceat(reach, starts).astype(np.float32),
    )
