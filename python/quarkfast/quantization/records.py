"""What there is to show of each tensor and node of a plan: ranges, a coarse histogram, the extremes of channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bins", "Channels", "NodeRecord", "Records", "TensorRecord"]


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
