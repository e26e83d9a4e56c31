"""What a quantized model shall be good for: a ratio of signal to noise, or a metric of the user's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from quarkfast.config import POLICY
from quarkfast.errors import ConfigError
from quarkfast.pipeline.user_metric import Metric, measure_metric, read_metric

__all__ = ["LEAST_GAIN", "Goal", "Quality", "read_goal"]

# What a ratio must grow by to count where nothing else is said, in dB.
LEAST_GAIN = 0.1


@dataclass(frozen=True, slots=True)
class Quality:
    """What a model achieves.

    Attributes:
        sqnr: Ratio of signal to quantization noise of the worst output, in dB.
        metric: The user's metric; None without one.
        logits: The ratio of the worst of what Softmax and Sigmoid make outputs of, in dB; None where they make none.
        doubt: How much less than the worst of both other samples may have, in dB.
    """

    sqnr: float
    metric: float | None = None
    logits: float | None = None
    doubt: float = 0.0

    @property
    def worst(self) -> float:
        """The ratio of the worst output or logits, in dB."""
        return self.sqnr if self.logits is None else min(self.sqnr, self.logits)

    @property
    def assured(self) -> float:
        """What others than the few samples that were judged have with it as well, in dB."""
        return self.worst - self.doubt


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked for.

    Logits count as outputs do: probabilities near 0 and 1 tell little on few samples. Of an orientation classifier 16
    samples held apart had 29.7 dB, 128 others 21.9; their logits 20.0 and 20.9. A ratio has to be met with two standard
    errors taken off: the best of several levers on few samples is the best of these by chance as well.

    Attributes:
        min_sqnr: Least ratio in dB of the worst output and the worst logits, or None.
        max_drop: How far the metric may fall below that of the float model, in its own unit, or None.
        metric: The user's metric; None without one.
        data: What the metric is given; None stands for the samples that are held apart.
        largest_share: The most of the bytes of activations, and of weights, to which levers give more than 8 bits.
    """

    min_sqnr: float | None = None
    max_drop: float | None = None
    metric: Metric | None = None
    data: Any = None
    largest_share: float = POLICY.wide_share

    @property
    def name(self) -> str:
        """The option that asks for it."""
        return "min_sqnr" if self.min_sqnr is not None else "max_drop"

    def measure(self, session: Any, samples: Any) -> float | None:
        """Returns the metric of a model.

        Raises:
            ConfigError: If it raises, or returns something else than a finite number.
        """
        if self.metric is None:
            return None
        return measure_metric(self.metric, session, samples if self.data is None else self.data)

    def is_met(self, found: Quality, reference: Quality) -> bool:
        """Whether a model is good enough, beside what the float model achieves."""
        return (self.min_sqnr is None or found.assured >= self.min_sqnr) and not self._missing(found, reference)

    def is_better(self, found: Quality, best: Quality, reference: Quality, gain: float = LEAST_GAIN) -> bool:
        """Whether a model is nearer to the goal than another: first by the metric, up to what is asked for.

        Then the worse of outputs and logits must rise by more than `gain`, in dB; where that is asked for, also if the
        metric says enough.
        """
        if self.is_met(found, reference) != self.is_met(best, reference):
            return self.is_met(found, reference)
        one, other = (self._missing(each, reference) for each in (found, best))
        rises = found.worst > best.worst + gain
        return rises and one <= other if gain > LEAST_GAIN or one == other else one < other

    def notes(self, found: Quality, reference: Quality, wide: float) -> list[str]:
        """Returns what there is to say of the best that was found.

        Args:
            found: The best.
            reference: What the float model achieves.
            wide: The part of the bytes of activations that has more than 8 bits in it.
        """
        notes, more = [], self._remedy(wide)
        if self.min_sqnr is not None and found.assured < self.min_sqnr:
            logits = "" if found.logits is None else f" ({found.logits:.1f} of logits)"
            best = f"{found.sqnr:.1f} dB{logits} is the best that was found, {found.assured:.1f} assured"
            notes.append(f"min_sqnr: {self.min_sqnr:g} dB cannot be met, {best}{more}")
        if self.metric is not None:
            missed = f"; a drop of {self.max_drop:g} cannot be met{more}" if self._missing(found, reference) else ""
            notes.append(f"max_drop: metric {found.metric:.6g}, of the float model {reference.metric:.6g}{missed}")
        return notes

    def _remedy(self, wide: float) -> str:
        """Returns what lets levers go further, in words: more than what stays float by itself may be asked for."""
        beyond = max(self.largest_share, math.ceil(100 * wide) / 100)
        return "" if beyond >= 1 else f"; max_above_8_bits above {beyond:g} lets levers widen more of the bytes"

    def _missing(self, found: Quality, reference: Quality) -> float:
        """Returns by how much the metric falls too far."""
        if found.metric is None or reference.metric is None or self.max_drop is None:
            return 0.0
        return max(0.0, reference.metric - self.max_drop - found.metric)


def read_goal(
    min_sqnr: float | None,
    max_drop: float | None,
    metric: Metric | str | None,
    metric_data: Any,
    max_above_8_bits: float | None = None,
) -> Goal:
    """Returns what options ask for, one of which is given.

    Args:
        min_sqnr: Least ratio in dB.
        max_drop: How far the metric may fall.
        metric: A function, or ``module:function``, which is looked for in the working folder too.
        metric_data: What it is given.
        max_above_8_bits: The most of the bytes of activations, and of weights, to which levers give more than 8 bits;
            None for a quarter.

    Raises:
        ConfigError: If an option is missing or out of its range, or there is no such function.
    """
    function = None if metric is None else read_metric(metric)
    if min_sqnr is not None and not math.isfinite(min_sqnr):
        raise ConfigError(f"min_sqnr: expected a finite number of dB, got {min_sqnr}")
    if max_drop is not None and not 0 <= max_drop < math.inf:
        raise ConfigError(f"max_drop: expected a number from 0 up, in the unit of the metric, got {max_drop}")
    if max_drop is not None and metric is None:
        raise ConfigError("max_drop: expected a metric, of which it is the drop, got none")
    if metric is not None and max_drop is None:
        raise ConfigError("metric: expected max_drop, how far it may fall below the float model's, got none")
    if metric_data is not None and metric is None:
        raise ConfigError("metric_data: expected a metric that takes it, got none")
    if max_above_8_bits is not None and not 0 <= max_above_8_bits <= 1:
        raise ConfigError(f"max_above_8_bits: expected a part of the bytes from 0 to 1, got {max_above_8_bits}")
    if min_sqnr is None and max_drop is None:
        raise ConfigError("max_above_8_bits: expected min_sqnr or max_drop, whose levers it limits, got neither")
    share = POLICY.wide_share if max_above_8_bits is None else float(max_above_8_bits)
    return Goal(min_sqnr, max_drop, function, metric_data, share)
