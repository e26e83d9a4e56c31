"""Diagnostics of a plan: tensors that are constant, that saturate, and that lose most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.formats import find
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of_tensor
from quarkfast.graph.placement import Quantizer
from quarkfast.quantization.plan import Plan
from quarkfast.ranges.decibels import decibels
from quarkfast.ranges.summary import TensorSummary

__all__ = ["Diagnostics", "diagnose"]

_WORST = 5


class Diagnostics(NamedTuple):
    """What deserves a look.

    Attributes:
        constant: Activations that had one value in all of the calibration.
        saturated: Activations of which less than half of the range that was seen is kept.
        worst: The five tensors with the least expected signal to quantization noise, in dB, the worst first.
        sqnr: That ratio of every tensor of which it is known.
    """

    constant: tuple[str, ...] = ()
    saturated: tuple[str, ...] = ()
    worst: tuple[tuple[str, float], ...] = ()
    sqnr: Mapping[str, float] = MappingProxyType({})


def diagnose(
    plan: Plan, statistics: Mapping[str, TensorSummary], cut: Mapping[str, float] = MappingProxyType({})
) -> Diagnostics:
    """Returns what deserves a look in a plan.

    The noise of weights is that of rounding evenly, ``scale^2 / 12``; that of activations is expected from their
    histogram, where one was gathered, and includes what saturates (`quarkfast.kernels.quantization_error`).

    Args:
        plan: A plan.
        statistics: What calibration gathered, by tensor.
        cut: Activations that saturate where their reader tells nothing apart -> the ratio of what that computes.
    """
    constant, saturated, sqnr = [], [], {}
    for slot, weight in plan.constants:
        if slot.role != "activation" and _is_integer(weight.quantizer):
            sqnr[slot.tensor] = _weight_sqnr(array_of_tensor(weight.values), weight.quantizer)
    for tensor, quantizer in plan.quantizers.items():
        found = statistics.get(tensor)
        if found is None or found.range.min > found.range.max:
            continue
        if found.range.min == found.range.max:
            constant.append(tensor)
        elif _is_integer(quantizer) and quantizer.scale.size == 1:
            low, high = _limits(quantizer)
            kept = min(high, found.range.max) - max(low, found.range.min)
            if tensor not in cut and kept < (found.range.max - found.range.min) / 2:
                saturated.append(tensor)
            if tensor in cut:
                sqnr[tensor] = cut[tensor]
            elif found.histogram is not None:
                sqnr[tensor] = _activation_sqnr(found.histogram, quantizer)
    ordered = sorted(((value, name) for name, value in sqnr.items() if math.isfinite(value)))[:_WORST]
    worst = tuple((name, round(value, 2)) for value, name in ordered)
    return Diagnostics(tuple(constant), tuple(saturated), worst, sqnr)


def _is_integer(quantizer: Quantizer) -> bool:
    return find(quantizer.dtype).is_integer


def _weight_sqnr(values: NDArray[np.float32], quantizer: Quantizer) -> float:
    weights = values.reshape(-1)
    if not weights.size:
        return math.inf
    # In float64 piece by piece: the square of a mask of -3.4e38 is beyond float32.
    signal = float(np.einsum("i,i->", weights, weights, dtype=np.float64))
    return _ratio(signal / weights.size, float(np.square(quantizer.scale, dtype=np.float64).mean()) / 12)


def _activation_sqnr(histogram: kernels.Histogram, quantizer: Quantizer) -> float:
    mean, deviation = kernels.spread(histogram)
    qmin, qmax = _codes(quantizer)
    error = kernels.quantization_error(
        histogram, float(quantizer.scale.item()), int(quantizer.zero_point.item()), qmin, qmax
    )
    return _ratio(mean**2 + deviation**2, error)


def _ratio(signal: float, noise: float) -> float:
    return decibels(signal, noise) if signal > 0 and noise > 0 else math.inf


def _codes(quantizer: Quantizer) -> tuple[int, int]:
    row = qtype(quantizer.dtype)
    qmin = row.qmin if quantizer.qmin is None else quantizer.qmin
    qmax = row.qmax if quantizer.qmax is None else quantizer.qmax
    return int(qmin), int(qmax)


def _limits(quantizer: Quantizer) -> tuple[float, float]:
    scale, zero = float(quantizer.scale.item()), int(quantizer.zero_point.item())
    qmin, qmax = _codes(quantizer)
    return (qmin - zero) * scale, (qmax - zero) * scale
