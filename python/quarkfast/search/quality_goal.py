"""The goals `min_sqnr` and `max_drop`: a ratio of signal to noise, or a metric of the user's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from quarkfast import ort
from quarkfast.calibration.data import Feed
from quarkfast.config import POLICY, Policy
from quarkfast.errors import ConfigError
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.pipeline.user_metric import Metric, measure_metric, read_metric
from quarkfast.pipeline.wide_bytes import WideShares, stored_shares, wide_shares
from quarkfast.quantization import Records
from quarkfast.quantization.weight_precision import Effort
from quarkfast.search.job import Made
from quarkfast.search.quality import Quality
from quarkfast.search.search import Candidate, Search, Tried

__all__ = ["QualityGoal", "goal_of", "read_goal"]

_BYTE = 8


@dataclass(slots=True)
class QualityGoal:
    """What is asked for.

    Logits count as outputs do: probabilities near 0 and 1 tell little on few samples. Of an orientation classifier 16
    samples held apart had 29.7 dB, 128 others 21.9; their logits 20.0 and 20.9. A ratio has to be met with two standard
    errors taken off: the best of several levers on few samples is the best of these by chance as well.

    Attributes:
        min_sqnr: Least ratio in dB of the worst output and the worst logits, or None.
        max_drop: How far the metric may fall below that of the float model, in its own unit, or None.
        metric: The user's metric; None without one.
        data: What the metric is given; None stands for the holdout.
        largest_share: The most of the bytes of activations, and of weights, to which levers give more than 8 bits.
        reference: What the float model achieves.
        policy: What a lever must bring, and what is in doubt.
    """

    min_sqnr: float | None = None
    max_drop: float | None = None
    metric: Metric | None = None
    data: Any = None
    largest_share: float = POLICY.wide_share
    reference: Quality = field(default=Quality(math.inf))
    policy: Policy = POLICY

    kind: Literal["quality"] = field(default="quality", init=False)
    counted: Counted = field(default=Counted(logits=True), init=False)

    @property
    def name(self) -> str:
        """The option that asks for it."""
        return "min_sqnr" if self.min_sqnr is not None else "max_drop"

    def start(self, search: Search) -> None:
        """Reads the samples, and makes the model as it was asked for.

        Raises:
            ConfigError: If the preset stores weights as floats and rounds nothing else, or there are no real samples.
        """
        attempt = search.job.attempt
        self.policy = attempt.scheme.policy
        if attempt.scheme.weights_only and not attempt.scheme.stores_codes:
            raise ConfigError(f"{self.name}: expected a preset that levers change, got {attempt.scheme.name}")
        search.open(search.job.read_real_samples(self.name))
        with search.job.clock.stage("judge"):
            session = ort.inference_session(search.reference, ort.session_options(optimize=False, spinning=False))
            self.reference = Quality(math.inf, self._measure(session, search.holdout))
        usual = Effort.of(self.policy)
        usual = usual._replace(largest_share=min(usual.largest_share, self.largest_share))
        search.pull(Candidate("as asked", replace(attempt, effort=usual)))

    def quality(self, judge: Judge, data: bytes, holdout: Sequence[Feed]) -> Quality:
        """Returns what a model achieves on the holdout.

        Raises:
            ConfigError: If the metric raises, or returns something else than a finite number.
        """
        ratios = judge.noise(data).over_samples(self.policy)
        return Quality(ratios.outputs, self._measure(exact_session(data), holdout), ratios.logits, ratios.doubt)

    def is_met(self, found: Quality) -> bool:
        """Whether a model is good enough, beside what the float model achieves."""
        return self._lacking(found) <= 0 and not self._missing(found)

    def is_better(self, found: Quality, best: Quality, gain: float | None = None) -> bool:
        """Whether a model is nearer to the goal than another: first by the metric, up to what is asked for.

        Then the worse of outputs and logits must rise by more than `gain`, in dB; where that is asked for, also if the
        metric says enough.
        """
        if self.is_met(found) != self.is_met(best):
            return self.is_met(found)
        one, other = self._missing(found), self._missing(best)
        rises = found.worst > best.worst + (self.policy.search_gain if gain is None else gain)
        return rises and one <= other if gain is not None or one == other else one < other

    def finish(self, search: Search, best: Tried) -> Made:
        """Writes the best result, and says how much of it has more than 8 bits."""
        attempt = best.candidate.attempt
        with search.job.clock.stage("judge"):
            shares, few, wide = _shares(search, best), attempt.few_bits, 0.0
            # What stays float by itself takes nothing off what levers may widen of weights.
            if not attempt.scheme.stores_codes:
                wide = (shares if few == _BYTE else _shares(search, best, few)).activations
        made = search.written(best, self.notes(best.quality, wide))
        return made._replace(summary=replace(made.summary, judged=len(search.holdout), above_8_bits=shares))

    def notes(self, found: Quality, wide: float) -> list[str]:
        """Returns what there is to say of the best that was found.

        Args:
            found: The best.
            wide: The part of the bytes of activations that has more than 8 bits in it.
        """
        notes, more = [], self._remedy(wide)
        if self._lacking(found) > 0:
            logits = "" if found.logits is None else f" ({found.logits:.1f} of logits)"
            best = f"{found.sqnr:.1f} dB{logits} is the best that was found, {found.assured:.1f} assured"
            notes.append(f"min_sqnr: {self.min_sqnr:g} dB cannot be met, {best}{more}")
        if self.metric is not None:
            missed = f"; a drop of {self.max_drop:g} cannot be met{more}" if self._missing(found) else ""
            metrics = f"metric {found.metric:.6g}, of the float model {self.reference.metric:.6g}"
            notes.append(f"max_drop: {metrics}{missed}")
        return notes

    def _remedy(self, wide: float) -> str:
        """Returns what lets levers go further, in words: more than what stays float by itself may be asked for."""
        beyond = max(self.largest_share, math.ceil(100 * wide) / 100)
        return "" if beyond >= 1 else f"; max_above_8_bits above {beyond:g} lets levers widen more of the bytes"

    def _measure(self, session: Any, samples: Any) -> float | None:
        if self.metric is None:
            return None
        return measure_metric(self.metric, session, samples if self.data is None else self.data)

    def _lacking(self, found: Quality) -> float:
        """Returns how many dB are missing with what is in doubt taken off."""
        return -math.inf if self.min_sqnr is None else self.min_sqnr - found.assured

    def _missing(self, found: Quality) -> float:
        """Returns by how much the metric falls too far."""
        if found.metric is None or self.reference.metric is None or self.max_drop is None:
            return 0.0
        return max(0.0, self.reference.metric - self.max_drop - found.metric)


def _shares(search: Search, best: Tried, bits: int = _BYTE) -> WideShares:
    if best.candidate.attempt.scheme.stores_codes:
        return stored_shares(best.made.data)
    return wide_shares(best.made.data, best.made.summary.records or Records(), search.holdout[0], bits)


def goal_of(search: Search) -> QualityGoal:
    """Returns the goal of a search that has one."""
    assert isinstance(search.goal, QualityGoal)
    return search.goal


def read_goal(
    min_sqnr: float | None,
    max_drop: float | None,
    metric: Metric | str | None,
    metric_data: Any,
    max_above_8_bits: float | None = None,
) -> QualityGoal:
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
    return QualityGoal(min_sqnr, max_drop, function, metric_data, share)
