"""The ladder of a quality target: ways to quantize that were tried, and the best of them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from quarkfast import ort
from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import CalibrationData, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.judge import Counted, Judge, hold_out
from quarkfast.graph.access import name_of
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_files, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quality_goal import LEAST_GAIN, Goal, Quality
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.remembered import Remembered
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import LeverResult, Summary
from quarkfast.pipeline.wide_bytes import WideShares, stored_shares, wide_shares
from quarkfast.quantization import Records
from quarkfast.quantization.weight_precision import USUAL, Effort
from quarkfast.targets import Target

__all__ = ["Attempt", "Ladder", "Quantized"]

# In dB, what the choice of tensors aims at above the target, or what is in doubt where that is more: its samples are
# others than those that are judged.
_MARGIN = 1.0

_BYTE = 8

# Levers that a search pulls if none is enough, for the estimate: more than it does on most models.
_MOST = 10


@dataclass(frozen=True, slots=True)
class Attempt:
    """A way to quantize: a scheme, where it is placed, and how far weights are improved by other forms."""

    scheme: Scheme
    target: Target
    effort: Effort = USUAL

    @property
    def makes_up(self) -> bool:
        """Whether codes of weights or biases make up for what activations lose: they are wrong beside others."""
        return self.scheme.rounding != "nearest" or self.scheme.output_bias_correction

    @property
    def few_bits(self) -> int:
        """The most bits of an activation that levers may give more: 8, or 16 where the preset gives all of them 16."""
        row = self.scheme.activation.format
        return _BYTE if row.is_block else max(_BYTE, math.ceil(row.bits))

    @property
    def plain(self) -> Attempt:
        """The same with codes and biases that make up for nothing."""
        plain = replace(self.scheme, rounding="nearest", rounding_options=(), output_bias_correction=False)
        return replace(self, scheme=plain)


@dataclass(frozen=True, slots=True)
class Quantized:
    """A model that was made, and the summary of that."""

    data: bytes
    summary: Summary


@dataclass(frozen=True, slots=True)
class _JudgedAttempt(Quantized):
    plan: Attempt
    quality: Quality


class Ladder:
    """The best result so far, and what was tried.

    Attributes:
        model: The float model as it was given.
        reference: The same as bytes.
        tensors: Names of its tensors.
        calibration: Samples that calibrate.
        goal: What is asked for.
        clock: Measures the stages.
        notes: What the levers have to say.
    """

    def __init__(
        self,
        model: ModelSource,
        path: Path | None,
        scheme: Scheme,
        data: CalibrationData,
        max_memory: int | str | None,
        goal: Goal,
        clock: Clock,
        histograms: bool,
    ) -> None:
        """Reads the samples, and runs the float model on those that judge.

        Raises:
            ConfigError: If the samples are random.
            CalibrationError: If they do not fit the model.
        """
        loaded = load_model(model)
        if path is not None:
            check_not_a_source(path, model, external_files(loaded))
        inputs = model_inputs(loaded)
        samples = open_data(data, inputs, scheme.samples, scheme.batch_size, scheme.preprocess)
        self.reference = to_proto(loaded).SerializeToString()
        cut_to_rows(samples, loaded)
        if samples.random:
            raise ConfigError(f"{goal.name}: expected real samples to judge outputs on, got random ones")
        feeds = [dict(feed) for feed in samples]
        self.calibration, self._judged = hold_out(feeds)
        self.model, self._path, self._max_memory, self.clock = model, path, max_memory, clock
        self._histograms = histograms
        self.tensors = {name_of(value) for node in loaded.graph for value in (*node.inputs, *node.outputs) if value}
        self.goal = goal
        with clock.stage("judge"):
            self._judge = Judge(self.reference, self._judged, Counted(logits=True))
            session = ort.inference_session(self.reference, ort.session_options(optimize=False, spinning=False))
            self._float = Quality(np.inf, goal.measure(session, self._judged))
        self._tried: list[LeverResult] = []
        self.notes: list[str] = []
        self._best: _JudgedAttempt | None = None
        self._plain: Quantized | None = None
        self._planned: list[Attempt] = []
        self._remembered = Remembered()

    @property
    def is_met(self) -> bool:
        """Whether the best result is good enough."""
        return self._best is not None and self.goal.is_met(self._best.quality, self._float)

    @property
    def best(self) -> _JudgedAttempt:
        """The best result."""
        assert self._best is not None
        return self._best

    @property
    def plan(self) -> Attempt:
        """The plan of the best result."""
        return self.best.plan

    def has_tried(self, plan: Attempt) -> bool:
        """Whether a plan was pulled."""
        return plan in self._planned

    def pull(self, lever: str, plan: Attempt, *, gain: float = LEAST_GAIN, enough: bool = False) -> bool:
        """Quantizes by a plan, and keeps the result if it is the best; returns whether it is.

        Args:
            lever: What the table of levers calls it.
            plan: The plan.
            gain: By more than how many dB it has to be better.
            enough: Whether it has to be good enough as well.
        """
        start = time.perf_counter()
        self._planned.append(plan)
        made = self.quantize(plan)
        with self.clock.stage("judge"):
            ratios = self._judge.noise(made.data).over_samples()
            metric = self.goal.measure(exact_session(made.data), self._judged)
            found = Quality(ratios.outputs, metric, ratios.logits, ratios.doubt)
        kept = self._best is None or self.goal.is_better(found, self._best.quality, self._float, gain)
        kept = kept and (not enough or self.goal.is_met(found, self._float))
        if kept:
            self._best = _JudgedAttempt(made.data, made.summary, plan, found)
            self._plain = self._plain if plan.makes_up else made
        seconds = time.perf_counter() - start
        result = LeverResult(lever, seconds, len(made.data), found.sqnr, kept, found.metric, found.logits)
        self._tried.append(replace(result, assured=found.assured))
        if not self.is_met:
            self.clock.report("search", len(self._tried), max(_MOST, len(self._tried)))
        return kept

    def quantize(self, plan: Attempt) -> Quantized:
        """Returns the model of a plan, by the samples that calibrate."""
        scheme = replace(plan.scheme, samples=None, preprocess=None)
        given = (self.calibration, None, self._max_memory, self.clock, self._histograms, plan.effort)
        return Quantized(*quantize_model(self.model, None, scheme, plan.target, *given, self._remembered))

    def with_nearest_codes(self) -> Quantized:
        """Returns the best result whose codes make up for nothing; of a rounding that the user asked for, another."""
        if self._plain is None:
            self._plain = self.quantize(self.plan.plain)
        return self._plain

    def gain(self, before: Quantized, after: Quantized) -> float:
        """Returns how many dB more the worse of outputs and logits has with another model."""
        with self.clock.stage("judge"):
            least, other = (self._judge.noise(each.data).over_samples().worst for each in (before, after))
        return other - least

    def aim(self, more: float) -> float:
        """Returns the ratio in dB to choose tensors for: the least that is wanted, or `more` than there is."""
        found, least = self.best.quality, self.goal.min_sqnr
        if least is None or found.assured >= least:
            return found.worst + more
        return least + max(_MARGIN, found.doubt)

    def _shares(self, best: _JudgedAttempt, bits: int = _BYTE) -> WideShares:
        if not best.plan.scheme.stores_codes:
            return wide_shares(best.data, best.summary.records or Records(), self._judged[0], bits)
        return stored_shares(best.data)

    def finish(self) -> tuple[bytes, Summary]:
        """Writes the best result, and returns it with the summary of what was tried."""
        best = self.best
        if self._path is not None:
            save_bytes(best.data, self._path)
        with self.clock.stage("judge"):
            shares, few, wide = self._shares(best), best.plan.few_bits, 0.0
            # What stays float by itself takes nothing off what levers may widen of weights.
            if not best.plan.scheme.stores_codes:
                wide = (shares if few == _BYTE else self._shares(best, few)).activations
        told = self.goal.notes(best.quality, self._float, wide)
        notes = (*best.summary.notes, *self.notes, *told)
        seconds = dict(self.clock.seconds)
        levers = tuple(self._tried)
        found = replace(best.summary, notes=notes, levers=levers, judged=len(self._judged), above_8_bits=shares)
        return best.data, replace(found, seconds=seconds)
