"""One tensor of a quantized model beside its float original: what rounding costs there, and what came before."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quarkfast.ranges.decibels import decibels
from quarkfast.wording import counted

__all__ = [
    "HIGH",
    "LOW",
    "Comparison",
    "Prediction",
    "TensorComparison",
    "add_sums",
    "total_of",
    "worst_channels",
]

LOW, HIGH = 2, 3
"""Columns of the operator Compare that do not add up over runs: the least and the largest value."""


# A tensor whose own rounding leaves fewer dB, and whose values reach over less of its codes, is gone.
_GONE, _SMALL = 3.0, 0.01


@dataclass(frozen=True, slots=True)
class TensorComparison:
    """One tensor.

    Attributes:
        tensor: Its name in the float model, or in the quantized one where the float model has none of that name.
        kind: ``"activation"``, ``"weight"`` (constants of every kind) or ``"output"`` (of the model).
        dtype: Type of its codes; empty for outputs.
        sqnr: ``10 log10(sum x^2 / sum (x - y)^2)`` of the float model's ``x`` and the quantized model's ``y``, in dB:
            all errors up to here. None where the float model has no such tensor.
        rounding_sqnr: The same of what goes into this tensor's own QuantizeLinear and what comes out of its
            DequantizeLinear: what its own rounding adds. None for outputs.
        clipped: Share of values that lie beyond the codes, 0 to 1; None for outputs and codes that are floats.
        used: Share of the range of the codes that its values reach over, 0 to 1; None as above.
        worst_channels: Channels with the least `sqnr`, and that, worst first; empty where there is one channel.
        not_finite: Values that are NaN or infinite in one of both alone; they count for nothing else.
    """

    tensor: str
    kind: Literal["activation", "weight", "output"]
    dtype: str
    sqnr: float | None
    rounding_sqnr: float | None = None
    clipped: float | None = None
    used: float | None = None
    worst_channels: tuple[tuple[int, float], ...] = ()
    not_finite: int = 0

    @property
    def channels_told(self) -> str:
        """The worst channels in words, and of a tensor that its own rounding takes away, why."""
        if self.rounding_sqnr is not None and self.rounding_sqnr < _GONE and (self.used or 0) < _SMALL:
            return "too small for its scale: nearly all values become one code"
        return ", ".join(f"{channel}: {_told(ratio)}" for channel, ratio in self.worst_channels)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["worst_channels"] = [[channel, _plain(sqnr)] for channel, sqnr in self.worst_channels]
        return {name: _plain(value) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What outputs would gain if single tensors had 16 bits.

    Attributes:
        now: SQNR of the worst output as the model is, in dB, on the first samples.
        alone: Tensors, and that SQNR if the tensor alone had 16 bits.
        together: The same if all of them had.
        gaining: The same if all those had with which alone it is better than now: the ones to mend. Errors of tensors
            also cancel out, so that the others may be better left as they are.
    """

    now: float
    alone: tuple[tuple[str, float], ...]
    together: float
    gaining: float

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        alone = {tensor: _plain(sqnr) for tensor, sqnr in self.alone}
        return {
            "now": _plain(self.now),
            "alone": alone,
            "together": _plain(self.together),
            "gaining": _plain(self.gaining),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every quantized tensor of a model beside its float original.

    Attributes:
        tensors: In the order of the quantized model; its outputs last.
        samples: Rows that were run.
        not_compared: What was left out, with the reason.
        prediction: What the outputs would gain with 16 bits for the worst tensors; None where that was not asked for.
    """

    tensors: tuple[TensorComparison, ...]
    samples: int
    not_compared: tuple[str, ...] = ()
    prediction: Prediction | None = None

    def __repr__(self) -> str:
        """Returns one line."""
        worst = "".join(f"; worst {each.tensor!r} {each.rounding_sqnr:.1f} dB" for each in self.worst[:1])
        return f"Comparison: {counted(len(self.tensors), 'tensor')} on {counted(self.samples, 'sample')}{worst}"

    @property
    def worst(self) -> tuple[TensorComparison, ...]:
        """Activations and weights, those first whose own rounding adds the most."""
        rounded = [each for each in self.tensors if each.rounding_sqnr is not None]
        return tuple(sorted(rounded, key=lambda each: each.rounding_sqnr or 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {
            "samples": self.samples,
            "tensors": [each.to_dict() for each in self.tensors],
            "not_compared": list(self.not_compared),
            "prediction": None if self.prediction is None else self.prediction.to_dict(),
        }


def add_sums(sums: NDArray[np.float64] | None, found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adds rows of the operator Compare, one a channel, of shape ``[channels, 7]``, to others or to none.

    Where the number of rows differs from run to run they are no channels, and become one row.
    """
    if sums is None:
        return found
    if len(sums) != len(found):
        sums, found = total_of(sums), total_of(found)
    both = sums + found
    both[:, LOW] = np.minimum(sums[:, LOW], found[:, LOW])
    both[:, HIGH] = np.maximum(sums[:, HIGH], found[:, HIGH])
    return both


def total_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sums of all channels together, as one row."""
    total: NDArray[np.float64] = sums.sum(axis=0, keepdims=True)
    total[:, LOW], total[:, HIGH] = sums[:, LOW].min(initial=np.inf), sums[:, HIGH].max(initial=-np.inf)
    return total


def worst_channels(sums: NDArray[np.float64], count: int = 3) -> tuple[tuple[int, float], ...]:
    """Returns the channels with the least ratio and that ratio, worst first; none where there is one channel."""
    if len(sums) < 2:
        return ()
    ratios = [decibels(float(row[0]), float(row[1])) for row in sums]
    order = sorted(range(len(ratios)), key=lambda channel: ratios[channel])
    return tuple((channel, ratios[channel]) for channel in order[:count])


def _told(ratio: float) -> str:
    """Returns a ratio of a channel: 0 where as much is lost as there was, since all its codes stand for 0."""
    if ratio == 0:
        return "all 0"
    return f"{ratio:.1f} dB" if math.isfinite(ratio) else "exact" if ratio > 0 else "lost"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
