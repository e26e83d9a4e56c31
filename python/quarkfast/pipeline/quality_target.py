"""A quality target: options that cost more are tried, the cheapest first, until the outputs are good enough."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quarkfast import ort
from quarkfast.algorithms.gated_pairs import find_gated_pairs
from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import CalibrationData, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.config.equalization import read_equalization
from quarkfast.config.options.changes import set_shift_activations
from quarkfast.config.rules import Change, TensorRule
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.evaluate.constant_trial import decibels
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.float_outputs import FloatOutputs
from quarkfast.evaluate.pair_trial import PairTrial
from quarkfast.formats import wider_integer
from quarkfast.graph.access import name_of
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_files, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.float_nodes import nodes_left_float
from quarkfast.pipeline.louder_activations import LouderActivations
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quality_goal import LEAST_GAIN, Goal, Quality, read_goal
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.remembered import Remembered
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import LeverResult, Summary
from quarkfast.pipeline.weight_precision_steps import forms_taken
from quarkfast.pipeline.wide_bytes import wide_shares
from quarkfast.quantization import Records
from quarkfast.quantization.weight_precision import USUAL, Effort, has_eight_bits
from quarkfast.targets import Target
from quarkfast.wording import counted, first_names
from quarkfast.writers import lowest_opset

__all__ = ["quantize_to_goal", "read_goal"]

# Samples that are judged and not calibrated with: the last ones, at most a quarter of all.
_HELD_APART = 16

# Samples of those that calibrate on which weights alone are judged.
_SEARCHED = 2

# In dB, what the choice of tensors aims at above the target, or what is in doubt where that is more: its samples are
# others than those that are judged.
_MARGIN = 1.0

# In dB above what there is, what the choice of tensors aims at, one after the other, where a metric is to be reached.
# Each is twice the one before, since every try quantizes the model once more.
_AIMS = (3.0, 6.0, 12.0, 24.0)

# In dB, what equalization through gates has to bring for a Mul in front of each of them: what one bit more would. With
# less, codes that are chosen by outputs may have more without it: a table structure recognizer goes from 6.3 to 9.7 dB
# by it, and from 11.3 to 7.9 beside such codes.
_GAIN_OF_GATES = 6.0

# In dB, what a change may bring beyond that beside codes that are chosen by outputs, which take minutes to find.
_MORE_WITH_CODES = 3.0

# Halvings of a set of weights, with two runs of one sample each, by which those are found that get 16 bits.
_SPLITS = 32

# Options by which the same types carry more, the cheapest first, with fields of the scheme. One that the user gave is
# left as it is.
_OPTIONS: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    # Whether ranges are searched stays open: a method that is named rules it out, and this one is only tried.
    ("method=minmse", "method", "minmse", {"search_ranges": None}),
    ("rounding=descent", "rounding", "descent", {}),
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A way to quantize: a scheme, where it is placed, and how far weights are improved by other forms."""

    scheme: Scheme
    target: Target
    effort: Effort = USUAL

    @property
    def makes_up(self) -> bool:
        """Whether codes of weights make up for what activations lose, so that they are wrong beside others."""
        return self.scheme.rounding != "nearest"

    @property
    def plain(self) -> _Plan:
        """The same with codes that make up for nothing."""
        return replace(self, scheme=replace(self.scheme, rounding="nearest", rounding_options=()))


@dataclass(frozen=True, slots=True)
class _Quantized:
    data: bytes
    summary: Summary


@dataclass(frozen=True, slots=True)
class _Result(_Quantized):
    plan: _Plan
    quality: Quality


def quantize_to_goal(
    model: ModelSource,
    path: Path | None,
    preset: str | Scheme,
    options: Mapping[str, Any],
    calibration_data: CalibrationData | None,
    max_memory: int | str | None,
    goal: Goal,
    clock: Clock,
    histograms: bool = False,
) -> tuple[bytes, Summary]:
    """Quantizes `model` until it is good enough on samples held apart, by the cheapest levers.

    A lever stays where it helps. What was tried is in the summary, and a note where the target is not met.

    Raises:
        ConfigError: If the preset's activations have no scales, or there are no samples.
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    scheme, target = resolve(preset, options)
    if scheme.encoding != "qdq" or not scheme.activation.needs_range:
        raise ConfigError(f"{goal.name}: expected a preset whose activations have scales, got {scheme.name}")
    if calibration_data is None:
        raise ConfigError(f"{goal.name}: expected calibration_data to judge outputs on, got none")
    ladder = _Ladder(model, path, scheme, calibration_data, max_memory, goal, clock, histograms)
    ladder.pull("as asked", _Plan(scheme, target))
    given = dict(options)
    if not ladder.is_met and ladder.equalize_gates():
        given["equalize_options"] = dict(ladder.plan.scheme.equalize_options)
    for lever, name, value, fields in _OPTIONS:
        if name in options or ladder.is_met:
            continue
        try:
            scheme, target = resolve(preset, {**given, name: value})
        except ConfigError:  # the preset has no such choice
            continue
        plan = _Plan(replace(scheme, **fields), target)
        if plan != ladder.plan and ladder.pull(lever, plan):
            given[name] = value
    shifts = "shift_activations" not in options
    if shifts:
        ladder.shift_activations(enough=True)
    levers = [ladder.improve_weights, ladder.widen_activations]
    # Codes that are chosen by outputs have made weights better already: what they lose beside other codes says little.
    for pull in levers[::-1] if ladder.plan.makes_up else levers:
        pull()
    ladder.pull_together()
    if shifts:
        ladder.shift_activations(enough=False)
    return ladder.finish()


class _Ladder:
    """The best result so far, and what was tried."""

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
        loaded = load_model(model)
        if path is not None:
            check_not_a_source(path, model, external_files(loaded))
        inputs = model_inputs(loaded)
        samples = open_data(data, inputs, scheme.samples, scheme.batch_size, scheme.preprocess)
        self._reference = to_proto(loaded).SerializeToString()
        cut_to_rows(samples, self._reference)
        if samples.random:
            raise ConfigError(f"{goal.name}: expected real samples to judge outputs on, got random ones")
        feeds = [dict(feed) for feed in samples]
        apart = min(_HELD_APART, len(feeds) // 4) or len(feeds) // 2
        self._calibration, self._judged = feeds[: len(feeds) - apart], feeds[len(feeds) - apart :] or feeds
        self._model, self._path, self._max_memory, self._clock = model, path, max_memory, clock
        self._histograms = histograms
        self._tensors = {name_of(value) for node in loaded.graph for value in (*node.inputs, *node.outputs) if value}
        self._goal = goal
        with clock.stage("judge"):
            self._wanted = FloatOutputs(self._reference, self._judged)
            session = ort.inference_session(self._reference, ort.session_options(optimize=False, spinning=False))
            self._float = Quality(np.inf, goal.measure(session, self._judged))
        self._tried: list[LeverResult] = []
        self._notes: list[str] = []
        self._best: _Result | None = None
        self._plain: _Quantized | None = None
        self._shifts = False
        self._plans: list[_Plan] = []
        self._effort: Effort | None = None
        self._widened: _Plan | None = None
        self._remembered = Remembered()

    @property
    def is_met(self) -> bool:
        """Whether the best result is good enough."""
        return self._best is not None and self._goal.is_met(self._best.quality, self._float)

    @property
    def plan(self) -> _Plan:
        """The plan of the best result."""
        assert self._best is not None
        return self._best.plan

    def equalize_gates(self) -> bool:
        """Equalizes layers with a gate between them; returns whether that brought what the Muls are worth."""
        scheme = self.plan.scheme
        given = dict(scheme.equalize_options)
        if scheme.factors is None or "through_gates" in given or not has_eight_bits(scheme.activation):
            return False
        prepared = prepare(load_model(self._model), lowest_opset(scheme, self.plan.target), scheme)
        if next(find_gated_pairs(prepared), None) is None:
            return False
        own = read_equalization({**given, "through_gates": True})
        plan = replace(self.plan, scheme=replace(scheme, equalize_options=own))
        return self.pull("equalization through gates", plan, gain=_GAIN_OF_GATES)

    def pull(self, lever: str, plan: _Plan, *, gain: float = LEAST_GAIN, enough: bool = False) -> bool:
        """Quantizes by a plan, and keeps the result if it is the best; returns whether it is.

        Args:
            lever: What the table of levers calls it.
            plan: The plan.
            gain: By more than how many dB it has to be better.
            enough: Whether it has to be good enough as well.
        """
        start = time.perf_counter()
        self._plans.append(plan)
        made = self._quantize(plan)
        with self._clock.stage("judge"):
            ratios = self._wanted.judge(made.data)
            metric = self._goal.measure(exact_session(made.data), self._judged)
            found = Quality(ratios.outputs, metric, ratios.logits, ratios.doubt)
        kept = self._best is None or self._goal.is_better(found, self._best.quality, self._float, gain)
        kept = kept and (not enough or self._goal.is_met(found, self._float))
        if kept:
            self._best = _Result(made.data, made.summary, plan, found)
            self._plain = self._plain if plan.makes_up else made
        seconds = time.perf_counter() - start
        result = LeverResult(lever, seconds, len(made.data), found.sqnr, kept, found.metric, found.logits)
        self._tried.append(replace(result, assured=found.assured))
        return kept

    def _quantize(self, plan: _Plan) -> _Quantized:
        scheme = replace(plan.scheme, samples=None, preprocess=None)
        given = (self._calibration, None, self._max_memory, self._clock, self._histograms, plan.effort)
        return _Quantized(*quantize_model(self._model, None, scheme, plan.target, *given, self._remembered))

    def _with_nearest_codes(self) -> _Quantized:
        """Returns the best result whose codes make up for nothing; of a rounding that the user asked for, another."""
        if self._plain is None:
            self._plain = self._quantize(self.plan.plain)
        return self._plain

    def shift_activations(self, *, enough: bool) -> None:
        """Subtracts offsets from activations with symmetric codes, if that gives any of them a smaller scale.

        Args:
            enough: Whether that stays only if it is enough. Codes of 16 bits have no use for offsets, and those of some
                tensors change what is best for the others.
        """
        plan = self.plan
        if self.is_met or plan.scheme.strict:
            return
        try:
            shifted = replace(plan, scheme=set_shift_activations(plan.scheme, True))
        except ConfigError:  # the preset has no such codes
            return
        if enough:
            plain = self._quantize(shifted.plain)
            self._shifts = plain.data != self._with_nearest_codes().data
            if self._shifts and self._is_far(plain):
                return
        if self._shifts:
            self.pull("shift_activations=True", shifted, enough=enough)

    def _is_far(self, changed: _Quantized) -> bool:
        """Whether the best result lacks more than a change is likely to bring, by what it brings with nearest codes."""
        best, least = self._best, self._goal.min_sqnr
        assert best is not None
        if least is None or not best.plan.makes_up:
            return False
        with self._clock.stage("judge"):
            before, after = (self._wanted.judge(each.data).worst for each in (self._with_nearest_codes(), changed))
        return best.quality.assured + after - before + _MORE_WITH_CODES < least

    def improve_weights(self) -> None:
        """Gives weights other forms that the target takes, where they take more than half of what outputs may lose."""
        best = self._best
        assert best is not None
        scheme = best.plan.scheme
        may = not scheme.strict and has_eight_bits(scheme.weight) and forms_taken(scheme, best.plan.target)
        if self.is_met or not may:
            return
        most = 10 ** (-self._aim(_AIMS[0]) / 10) / 2
        plain = self._with_nearest_codes()
        with self._clock.stage("choose tensors"):
            trial = PairTrial(plain.data, self._reference, self._calibration[:_SEARCHED])
            found = trial.noise(())
            trial.close()
        if found <= most:
            return
        self._effort = Effort(most, gain=1.0, splits=_SPLITS, logits=True, of_worst=True)
        self.pull(f"weights that alone leave {decibels(most)}", replace(best.plan, effort=self._effort))

    def widen_activations(self) -> None:
        """Gives 16 bits to the activations that take most from the outputs, to more of them until that is enough.

        Where the target takes no 16 bits, the nodes around them stay float.
        """
        best = self._best
        assert best is not None
        wide, target = wider_integer(best.plan.scheme.activation.dtype), best.plan.target
        if self.is_met or wide is None:
            return
        takes = not target.activation_types or wide in target.activation_types
        if not takes:
            self._notes.append(f"{self._goal.name}: {target.name} takes no {wide} activations")
        plain = self._with_nearest_codes()
        with self._clock.stage("choose tensors"):
            records = plain.summary.records or Records()
            louder = LouderActivations(plain.data, records, self._reference, self._calibration, self._tensors)
        before: set[str] = set()
        for more in _AIMS:
            with self._clock.stage("choose tensors", louder.runs) as report:
                names, share = louder.choose(self._aim(more), report)
            louder.close()  # it takes as much memory as a quantization
            if before >= set(names) and self._goal.metric is not None:
                continue
            pulled = self._widen(best.plan, names, share, wide) if takes else self._leave_float(best.plan, names, plain)
            self._widened = self._plans[-1] if pulled else self._widened
            if not pulled or self.is_met or self._goal.metric is None:
                break
            before = set(names)

    def pull_together(self) -> None:
        """Gives weights and activations more bits at once, where one alone drowned in the noise of the other."""
        if self.is_met or self._effort is None or self._widened is None:
            return
        both = replace(self._widened, effort=self._effort)
        if both not in self._plans:
            self.pull("both together", both)

    def _aim(self, more: float) -> float:
        """Returns the ratio in dB to choose tensors for: the least that is wanted, or `more` than there is."""
        assert self._best is not None
        found, least = self._best.quality, self._goal.min_sqnr
        if least is None or found.assured >= least:
            return found.worst + more
        return least + max(_MARGIN, found.doubt)

    def _widen(self, plan: _Plan, names: Sequence[str], share: float, wide: str) -> bool:
        """Pulls the lever; returns whether there was anything to widen, and the target takes it."""
        scheme = plan.scheme
        own = {rule.tensor for rule in scheme.tensors}
        rules = tuple(TensorRule(name, Change.of({"dtype": wide}, "tensors")) for name in names if name not in own)
        if not rules:
            return False
        shown = first_names(rule.tensor for rule in rules)
        widened = replace(plan, scheme=replace(scheme, tensors=(*scheme.tensors, *rules)))
        try:
            self.pull(
                f"{wide} for {counted(len(rules), 'activation')} ({shown}; {100 * share:.0f} % of their bytes)", widened
            )
        except (ConfigError, UnsupportedError) as error:
            self._notes.append(f"{self._goal.name}: {plan.target.name} takes no {wide} activations: {error}")
            return False
        return True

    def _leave_float(self, plan: _Plan, names: Sequence[str], plain: _Quantized) -> bool:
        """Leaves nodes float so that activations need no codes; returns whether there are any."""
        with self._clock.stage("choose tensors"):
            records = plain.summary.records or Records()
            nodes = nodes_left_float(plain.data, records, names, self._calibration[0])
        if not nodes:
            return False
        exclude = (*plan.scheme.exclude, *(f"^{re.escape(name)}" for name in nodes))
        left = replace(plan, scheme=replace(plan.scheme, exclude=exclude))
        self.pull(f"float for {counted(len(nodes), 'node')} ({first_names(nodes)})", left)
        return True

    def finish(self) -> tuple[bytes, Summary]:
        """Writes the best result, and returns it with the summary of what was tried."""
        best = self._best
        assert best is not None
        notes = (*best.summary.notes, *self._notes, *self._goal.notes(best.quality, self._float))
        if self._path is not None:
            save_bytes(best.data, self._path)
        with self._clock.stage("judge"):
            shares = wide_shares(best.data, best.summary.records or Records(), self._judged[0])
        seconds = dict(self._clock.seconds)
        levers = tuple(self._tried)
        found = replace(best.summary, notes=notes, levers=levers, judged=len(self._judged), above_8_bits=shares)
        return best.data, replace(found, seconds=seconds)
