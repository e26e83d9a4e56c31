"""The search: levers one after the other, the cheapest first, of which stays what makes outputs better on a holdout."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import Feed
from quarkfast.config import Policy
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.evaluate.judge import Counted, Judge, hold_out
from quarkfast.graph.access import name_of
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.cache import Cache
from quarkfast.pipeline.context import Uncorrected
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.summary import LeverResult
from quarkfast.quantization.weight_precision import Effort
from quarkfast.search.job import Attempt, Job, Made
from quarkfast.search.quality import Quality

__all__ = ["Candidate", "Goal", "Kind", "Lever", "Search", "Tried"]

Kind = Literal["asked", "unasked", "quality", "layers"]
"""What levers serve: options asked for, poor outputs, `min_sqnr` and `max_drop`, mixed precision."""


# Candidates that are tried if none is enough, for the estimate of progress: more than there are on most models.
_CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """One try of a lever.

    Attributes:
        label: What the table of levers calls it.
        attempt: The way to quantize.
        gain: What it has to bring in dB; None for what the goal wants of every lever.
        enough: Whether it has to reach the goal as well.
        given: Options that it stands for, which no other lever changes once it is kept.
        refused: What to note where the target does not take it; empty where an error is one.
    """

    label: str
    attempt: Attempt
    gain: float | None = None
    enough: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""


class Lever(NamedTuple):
    """A row of the table of levers.

    Attributes:
        name: The field's term.
        cost: How many times it calibrates or judges the model, about, in runs of all samples.
        candidates: Yields what it tries, each judged before the next is asked for.
        applies: Whether there is anything to try, before any candidate is made.
        serves: The kinds of goals that it is for.
        below: From a policy to the ratio of the worst output in dB below which it is tried unasked; None for never
            without a goal.
        strict: Whether a strict preset may have it, with a goal.
    """

    name: str
    cost: float
    candidates: Callable[[Search], Iterator[Candidate]]
    applies: Callable[[Search], bool]
    serves: tuple[Kind, ...] = ("quality",)
    below: Callable[[Policy], float] | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that was made and judged."""

    candidate: Candidate
    made: Made
    quality: Quality
    seconds: float


class Goal(Protocol):
    """What a search is for."""

    @property
    def kind(self) -> Kind:
        """Which levers serve it."""

    @property
    def counted(self) -> Counted:
        """What the judge counts."""

    def start(self, search: Search) -> None:
        """Reads the samples, and makes the first model."""

    def quality(self, judge: Judge, data: bytes, holdout: Sequence[Feed]) -> Quality:
        """Returns what a model achieves."""

    def is_met(self, found: Quality) -> bool:
        """Whether a model is good enough."""

    def is_better(self, found: Quality, best: Quality, gain: float | None) -> bool:
        """Whether a model is nearer to the goal than another, by more than `gain` in dB."""

    def finish(self, search: Search, best: Tried) -> Made:
        """Returns the best that was tried, or the same by all samples, with what there is to say of it."""


class Search:
    """The best result so far, and what was tried.

    Attributes:
        job: What is quantized.
        goal: What it is for.
        given: Options that no lever changes: the user's, and those that were kept.
        tried: What was tried, in this order.
        notes: What the levers have to say.
        calibration: Samples that calibrate what is tried.
        holdout: Samples that judge it.
        best: The best that was tried.
        result: A model of all samples, where one was made.
        uncorrected: The same without biases that were corrected unasked.
        shifts: Whether offsets give any activation a smaller scale.
        effort: How far weights were improved, where that was tried.
        widened: The last attempt with wider activations, where that was tried.
    """

    def __init__(self, job: Job, goal: Goal) -> None:
        """Opens no sample and no model."""
        self.job, self.goal, self.given = job, goal, dict(job.options)
        self.tried: list[Tried] = []
        self.notes: list[str] = []
        self.calibration: list[Feed] = []
        self.holdout: list[Feed] = []
        self.best: Tried | None = None
        self.result: Made | None = None
        self.uncorrected = Uncorrected()
        self.shifts = False
        self.effort: Effort | None = None
        self.widened: Attempt | None = None
        self._steps: tuple[Tried, ...] = ()
        self._plain: Made | None = None
        self._cache = Cache()

    def run(self, levers: Sequence[Lever]) -> Made:
        """Tries levers until the result is good enough, writes it, and returns it."""
        self.goal.start(self)
        done = set[str]()  # a lever that has two places in the order is tried once
        for lever in levers:
            if lever.name not in done and self.wants(lever) and lever.applies(self):
                done.add(lever.name)
                for candidate in lever.candidates(self):
                    self.pull(candidate)
        return self.result if self.best is None and self.result else self.goal.finish(self, self.current)

    def wants(self, lever: Lever) -> bool:
        """Whether a lever may be tried: until a goal is met, and unasked where outputs are poor enough."""
        unasked = self.goal.kind == "unasked"
        if self.job.attempt.scheme.strict and (unasked or not lever.strict):
            return False
        poor = not unasked or (lever.below is not None and self.worst < lever.below(self.policy))
        return self.goal.kind in lever.serves and poor and not self.is_met

    def open(self, feeds: Sequence[Feed], most: int | None = None) -> None:
        """Takes samples, of which at most so many calibrate, and runs the float model on the holdout."""
        calibration, self.holdout = hold_out(feeds, self.policy)
        self.calibration = calibration[:most]
        with self.job.clock.stage("judge"):
            self.judge = Judge(self.reference, self.holdout, self.goal.counted)

    @cached_property
    def reference(self) -> bytes:
        """The float model."""
        data: bytes = to_proto(load_model(self.job.model)).SerializeToString()
        return data

    @cached_property
    def tensors(self) -> frozenset[str]:
        """Names of the tensors of the float model."""
        graph = load_model(self.job.model).graph
        return frozenset(name_of(value) for node in graph for value in (*node.inputs, *node.outputs) if value)

    @property
    def policy(self) -> Policy:
        """The thresholds of the job."""
        return self.job.attempt.scheme.policy

    @property
    def worst(self) -> float:
        """The ratio of the worst output of the model of all samples on the first one, in dB."""
        outputs = self.uncorrected.outputs or (self.result.summary.outputs if self.result else ())
        return outputs[0][1] if outputs else math.inf

    @property
    def is_met(self) -> bool:
        """Whether the best result is good enough."""
        return self.best is not None and self.goal.is_met(self.best.quality)

    @property
    def current(self) -> Tried:
        """The best that was tried; only once there is one."""
        assert self.best is not None
        return self.best

    @property
    def attempt(self) -> Attempt:
        """The way to quantize of the best result."""
        return self.job.attempt if self.best is None else self.best.candidate.attempt

    @property
    def kept(self) -> bool:
        """Whether what was tried last is the best."""
        return bool(self.tried) and self.tried[-1] is self.best

    def has_tried(self, attempt: Attempt) -> bool:
        """Whether a way to quantize was tried."""
        return any(each.candidate.attempt == attempt for each in self.tried)

    def pull(self, candidate: Candidate) -> None:
        """Makes and judges a candidate, and keeps it if it is the best."""
        start = time.perf_counter()
        try:
            made = self.make(candidate.attempt)
        except (ConfigError, UnsupportedError) as error:
            if not candidate.refused:
                raise
            self.notes.append(f"{candidate.refused}: {error}")
            return
        self.judge_made(candidate, made, start)

    def judge_made(self, candidate: Candidate, made: Made, start: float) -> None:
        """Judges a model that was made, and keeps it if it is the best.

        Args:
            candidate: What it was made by.
            made: The model.
            start: When that was begun, by `time.perf_counter`.
        """
        with self.job.clock.stage("judge"):
            quality = self.goal.quality(self.judge, made.data, self.holdout)
        tried = Tried(candidate, made, quality, time.perf_counter() - start)
        self.tried.append(tried)
        better = self.best is None or self.goal.is_better(quality, self.best.quality, candidate.gain)
        if better and (not candidate.enough or self.goal.is_met(quality)):
            self.keep(tried)
        if self.goal.kind == "quality" and not self.is_met:
            self.job.clock.report("search", len(self.tried), max(_CANDIDATES, len(self.tried)))

    def keep(self, tried: Tried, *, alone: bool = False) -> None:
        """Takes what was tried for the best; `alone` in place of all that was kept before."""
        self.best, self._steps = tried, (tried,) if alone else (*self._steps, tried)
        self._plain = self._plain if tried.candidate.attempt.makes_up else tried.made
        self.given |= tried.candidate.given

    def make(self, attempt: Attempt) -> Made:
        """Returns the model of an attempt, by the samples that calibrate."""
        scheme, job = replace(attempt.scheme, samples=None, preprocess=None), self.job
        given = (self.calibration, None, job.max_memory, job.clock, job.histograms, attempt.effort, self._cache)
        return Made(*quantize_model(job.model, None, scheme, attempt.target, *given))

    def make_whole(self, attempt: Attempt, feeds: Sequence[Feed] | None = None, *, unasked: bool = True) -> Made:
        """Returns the model of an attempt by all samples, and writes it.

        Args:
            attempt: The way to quantize.
            feeds: All samples, where they have been read.
            unasked: Whether biases may be corrected where nobody asked for it.
        """
        scheme, job = attempt.scheme, self.job
        samples, calibration = job.samples, job.calibration
        if feeds is not None:
            scheme, samples, calibration = replace(scheme, samples=None, preprocess=None), feeds, None
        self.uncorrected = Uncorrected()
        uncorrected = self.uncorrected if unasked and job.may_correct_biases else None
        memory, clock, more = job.max_memory, job.clock, (job.histograms, attempt.effort)
        given = (job.model, job.path, scheme, attempt.target, samples, calibration)
        return Made(*quantize_model(*given, memory, clock, *more, uncorrected=uncorrected))

    def with_nearest_codes(self) -> Made:
        """Returns the best result whose codes make up for nothing; of a rounding that the user asked for, another."""
        if self._plain is None:
            self._plain = self.make(self.attempt.plain)
        return self._plain

    def gain(self, before: Made, after: Made) -> float:
        """Returns how many dB more the worse of outputs and logits has with another model."""
        with self.job.clock.stage("judge"):
            least, other = (self.judge.noise(each.data).over_samples().worst for each in (before, after))
        return other - least

    def written(self, best: Tried, notes: Sequence[str], more: Sequence[LeverResult] = ()) -> Made:
        """Writes a result, and returns it with the summary of what was tried.

        Args:
            best: The result.
            notes: What there is to say.
            more: Other results than those of candidates.
        """
        if self.job.path is not None:
            save_bytes(best.made.data, self.job.path)
        assures = self.goal.kind == "quality"
        levers = (*(_row(each, kept=each in self._steps, assures=assures) for each in self.tried), *more)
        notes = (*best.made.summary.notes, *self.notes, *notes)
        seconds = dict(self.job.clock.seconds)
        return Made(best.made.data, replace(best.made.summary, notes=notes, levers=levers, seconds=seconds))


def _row(tried: Tried, *, kept: bool, assures: bool) -> LeverResult:
    quality, size = tried.quality, len(tried.made.data)
    rest = (quality.metric, quality.logits, quality.assured if assures else None)
    return LeverResult(tried.candidate.label, tried.seconds, size, quality.sqnr, kept, *rest)
