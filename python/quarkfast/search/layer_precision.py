"""Mixed precision: layers that matter get more bits than others, or those that do not get fewer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from quarkfast.calibration.data import Feed
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.errors import ConfigError
from quarkfast.evaluate.distance import AS_THEY_STAND, RATIOS, verdict_on
from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.graph.load import load_model
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.recipes import PREPARATION
from quarkfast.pipeline.step import run_steps
from quarkfast.pipeline.summary import LeverResult
from quarkfast.quantization import place
from quarkfast.quantization.layer_candidates import LayerCandidate, find_candidates
from quarkfast.ranges.decibels import ratio_of
from quarkfast.search.job import Attempt, Made
from quarkfast.search.layer_sensitivity import (
    Chosen,
    LayerSensitivity,
    RankedLayer,
    described,
    size_of,
    types_of,
    with_layers,
)
from quarkfast.search.quality import Quality
from quarkfast.search.search import Candidate, Search, Tried
from quarkfast.writers import lowest_opset

__all__ = ["LayerGoal", "layer_precision"]

_Tries = Generator[Candidate, None, bool]


@dataclass(slots=True)
class LayerGoal:
    """What mixed precision asks for.

    Attributes:
        settings: What is asked for.
        layers: Layers that may get other types.
        ranking: What each does to the outputs, where that was found out.
    """

    settings: MixedPrecision
    layers: tuple[LayerCandidate, ...] = ()
    ranking: Sequence[RankedLayer] = ()

    kind: Literal["layers"] = field(default="layers", init=False)
    counted: Counted = field(default=AS_THEY_STAND, init=False)

    def start(self, search: Search) -> None:
        """Finds the layers, and makes the model as the preset says; where no outputs decide, with all of them changed.

        Raises:
            ConfigError: If there are no real samples, or the model has no such output.
        """
        attempt, settings = search.job.attempt, self.settings
        base = replace(attempt, scheme=replace(attempt.scheme, mixed_precision=None))
        self.layers = _layers(search, base, settings)
        if not (settings.searches and self.layers):
            every = [(each, each.forms[0]) for each in self.layers]
            changed = replace(base, scheme=with_layers(base.scheme, every))
            made = search.make_whole(changed, unasked=False)
            notes = (*made.summary.notes, f"mixed precision: {described(every, self.layers)}")
            search.result = made._replace(summary=replace(made.summary, notes=notes))
            return
        feeds = search.job.read_real_samples("mixed_precision")
        for each in self.layers:
            size_of(each, settings)  # which is refused before anything runs
        search.open(feeds)
        if settings.output is not None and settings.output not in search.judge.outputs:
            known = ", ".join(map(str, search.judge.outputs)) or "none"
            raise ConfigError(
                f"mixed_precision: output: expected the index of an output of floats ({known}), got {settings.output}"
            )
        search.pull(Candidate("as asked, without mixed precision", base))

    def quality(self, judge: Judge, data: bytes, holdout: Sequence[Feed]) -> Quality:
        """Returns the distance of a model by the metric that is asked for."""
        found = verdict_on(data, judge, self.settings.metric, self.settings.output)
        return Quality(found.sqnr, distance=found.distance, noise=found.noise)

    def reaches(self, found: Quality) -> bool:
        """Whether the threshold is reached; never without one."""
        threshold = self.settings.threshold
        if threshold is None:
            return False
        return found.distance <= (-threshold if self.settings.metric in RATIOS else threshold)

    def is_met(self, found: Quality) -> bool:
        """Returns false: more layers may change where the threshold is reached."""
        return False

    def is_better(self, found: Quality, best: Quality, gain: float | None = None) -> bool:
        """Returns false: the lever itself says how many layers change."""
        return False

    def finish(self, search: Search, best: Tried) -> Made:
        """Writes the result, and says what changed and what that cost or brought."""
        plain, settings = search.tried[0], self.settings
        text = best.candidate.label if best is not plain else described((), self.layers)
        apart = f"on {len(search.holdout)} samples held apart"
        if best is plain:
            text += f": {plain.quality.sqnr:.1f} dB {apart}"
        else:
            text += (
                f": {best.quality.sqnr:.1f} dB instead of {plain.quality.sqnr:.1f} dB {apart}, "
                f"{len(best.made.data):,} bytes instead of {len(plain.made.data):,}"
            )
        if settings.threshold is not None and not settings.rank_only and not self.reaches(best.quality):
            found = -best.quality.distance if settings.metric in RATIOS else best.quality.distance
            text += f"; {settings.metric} {settings.threshold:g} cannot be met, {found:.4g} is the best that was found"
        return search.written(
            best, [f"mixed precision: {text}"], [_alone(each) for each in self.ranking if settings.rank_only]
        )


def _alone(each: RankedLayer) -> LeverResult:
    name = f"{types_of(each.form)} for {each.candidate.name!r} alone"
    return LeverResult(name, each.seconds, each.bytes, each.verdict.sqnr, False)


def _layers(search: Search, base: Attempt, settings: MixedPrecision) -> tuple[LayerCandidate, ...]:
    scheme, target, clock = base.scheme, base.target, search.job.clock
    with clock.stage("load"):
        context = ModelContext(
            model=load_model(search.job.model),
            opset=lowest_opset(scheme, target),
            scheme=scheme,
            conversions=target.conversions,
        )
    with clock.stage("prepare"):
        run_steps(PREPARATION, context)
        placement = place(context.model, scheme, target)
    return find_candidates(context.model, placement.quantized, settings)


def layer_precision(search: Search) -> Iterator[Candidate]:
    """Ranks layers, and tries how many of them change."""
    assert isinstance(search.goal, LayerGoal)
    choice = _Choice(search, search.goal)
    count = yield from choice.count()
    search.keep(choice.tried[count], alone=True)


class _Choice:
    """The order in which layers change, and what was tried by how many of them change."""

    def __init__(self, search: Search, goal: LayerGoal) -> None:
        self._search, self._goal, self._settings = search, goal, goal.settings
        self._order: Chosen = [(each, each.forms[0]) for each in goal.layers]
        self.tried = {0: search.tried[0]}

    def count(self) -> Generator[Candidate, None, int]:
        """Returns how many layers change."""
        known = yield from self._without_ranking()
        if known is not None:
            return known
        ranking = LayerSensitivity(self._search, self.tried[0].candidate.attempt, self._settings, self._goal.layers)
        self._goal.ranking = ranking.ranked()
        self._order = [(each.candidate, each.form) for each in self._goal.ranking]
        if self._settings.rank_only:
            return 0
        high = self._within_share()
        if self._settings.threshold is None or not high:
            count = high
        elif self._settings.objective == "speed":
            return (yield from self._most(high))
        else:
            count = yield from self._fewest(high)
        if self._settings.objective == "speed":
            yield from self._try(count)
            return count
        yield from self._try(count)
        closer = self.tried[count].quality.distance < self.tried[0].quality.distance
        return count if closer else 0

    def _without_ranking(self) -> Generator[Candidate, None, int | None]:
        """Returns how many layers change where the order of layers does not matter: none or all; else None."""
        settings = self._settings
        if settings.rank_only or settings.threshold is None:
            return None
        if settings.objective == "quality":
            return 0 if (yield from self._is_met(0)) else None
        every = settings.share == 1 and all(len(each.forms) == 1 for each in self._goal.layers)
        return len(self._order) if every and (yield from self._is_met(len(self._order))) else None

    def _within_share(self) -> int:
        """Drops layers from the order that do not fit the share, and returns how many are left."""
        left = self._settings.share * sum(size_of(each, self._settings) for each in self._goal.layers)
        kept = []
        for candidate, form in self._order:
            if size_of(candidate, self._settings) <= left:
                left -= size_of(candidate, self._settings)
                kept.append((candidate, form))
        self._order = kept
        return len(kept)

    def _most(self, high: int) -> Generator[Candidate, None, int]:
        """Returns how many layers of the order may change at the most: bisection, as more make more noise."""
        low = 1
        if (yield from self._is_met(high)):
            return high
        while low < high:
            middle = (low + high) // 2
            if (yield from self._is_met(middle)):
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _fewest(self, high: int) -> Generator[Candidate, None, int]:
        """Returns how many have to change at the least: to be good enough, or as close as with all of them."""
        reached = yield from self._is_met(high)
        most, low = ratio_of(self._search.policy.search_near) * self.tried[high].quality.noise, 1
        while low < high:
            middle = (low + high) // 2
            yield from self._try(middle)
            quality = self.tried[middle].quality
            if self._goal.reaches(quality) if reached else quality.noise <= most:
                high = middle
            else:
                low = middle + 1
        return low

    def _is_met(self, count: int) -> _Tries:
        yield from self._try(count)
        return self._goal.reaches(self.tried[count].quality)

    def _try(self, count: int) -> Iterator[Candidate]:
        """Tries the first layers of the order changed, and everything else as it was asked for."""
        if count in self.tried:
            return
        base, chosen = self.tried[0].candidate.attempt, self._order[:count]
        changed = replace(base, scheme=with_layers(base.scheme, chosen))
        yield Candidate(described(chosen, self._goal.layers), changed)
        self.tried[count] = self._search.tried[-1]
