"""Which layers get other types: ranked one by one, then as many as the outputs on samples held apart allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import CalibrationData, model_inputs, open_data
from quarkfast.config import LayerRule, Scheme
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.errors import ConfigError
from quarkfast.evaluate.distance import AS_THEY_STAND, RATIOS, Verdict, verdict_on
from quarkfast.evaluate.judge import Judge, hold_out
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.layer_ranking import LayerRanking, RankedLayer, size_of
from quarkfast.pipeline.mixed_layers import Chosen, described, types_of, with_layers
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import LeverResult, Summary
from quarkfast.quantization.layer_candidates import LayerCandidate
from quarkfast.targets import Target

__all__ = ["MixedSearch"]

# A tenth of a decibel: noise that is this much greater is as good.
_NEAR = 10**0.01


@dataclass(frozen=True, slots=True)
class _MixedResult:
    data: bytes
    summary: Summary
    verdict: Verdict
    seconds: float


class MixedSearch:
    """Ranks layers, and finds how many of them change."""

    def __init__(
        self,
        model: ModelSource,
        base: Scheme,
        target: Target,
        settings: MixedPrecision,
        candidates: Sequence[LayerCandidate],
        data: CalibrationData,
        max_memory: int | str | None,
        clock: Clock,
        histograms: bool = False,
    ) -> None:
        """Reads the samples, and runs the float model on them.

        Raises:
            ConfigError: If the samples are random, or the model has no such output.
            CalibrationError: If the samples do not fit the model.
        """
        self._model, self._target, self._settings, self._candidates = model, target, settings, candidates
        self._max_memory, self._clock, self._histograms = max_memory, clock, histograms
        loaded = load_model(model)
        samples = open_data(data, model_inputs(loaded), base.samples, base.batch_size, base.preprocess)
        self._reference = to_proto(loaded).SerializeToString()
        cut_to_rows(samples, loaded)
        if samples.random:
            raise ConfigError("mixed_precision: expected real samples to judge outputs on, got random ones")
        feeds = [dict(feed) for feed in samples]
        self._calibrating, self._judged = hold_out(feeds)
        self._base = replace(base, samples=None, preprocess=None)
        for each in candidates:
            size_of(each, settings)  # which is refused before anything runs
        self._judge = Judge(self._reference, self._judged, AS_THEY_STAND)
        if settings.output is not None and settings.output not in self._judge.outputs:
            known = ", ".join(map(str, self._judge.outputs)) or "none"
            raise ConfigError(
                f"mixed_precision: output: expected the index of an output of floats ({known}), got {settings.output}"
            )
        self._ranking: list[RankedLayer] = []
        self._order = [(each, each.forms[0]) for each in candidates]
        self._results: dict[int, _MixedResult] = {}

    def run(self, path: Path | None) -> tuple[bytes, Summary]:
        """Finds the layers, writes the model, and returns it with the summary of what was tried."""
        self._result(0)
        known = self._without_ranking()
        if known is not None:
            return self._finish(path, known)
        ranking = LayerRanking(
            self._model,
            self._base,
            self._target,
            self._settings,
            self._candidates,
            self._calibrating,
            self._reference,
            self._max_memory,
            self._clock,
        )
        self._ranking = ranking.ranked()
        self._order = [(each.candidate, each.form) for each in self._ranking]
        if self._settings.rank_only:
            return self._finish(path, 0)
        most = self._within_share()
        count = self._most(most) if self._settings.objective == "speed" else self._fewest(most)
        return self._finish(path, count)

    def _without_ranking(self) -> int | None:
        """Returns how many layers change where the order of layers does not matter: none or all; else None."""
        settings = self._settings
        if settings.rank_only or settings.threshold is None:
            return None
        if settings.objective == "quality":
            return 0 if self._is_met(0) else None
        every = settings.share == 1 and all(len(forms) == 1 for forms in (each.forms for each in self._candidates))
        return len(self._order) if every and self._is_met(len(self._order)) else None

    def _within_share(self) -> int:
        """Drops layers from the order that do not fit the share, and returns how many are left."""
        left = self._settings.share * sum(size_of(each, self._settings) for each in self._candidates)
        kept = list[tuple[LayerCandidate, LayerRule]]()
        for candidate, form in self._order:
            if size_of(candidate, self._settings) <= left:
                left -= size_of(candidate, self._settings)
                kept.append((candidate, form))
        self._order = kept
        return len(kept)

    def _most(self, high: int) -> int:
        """Returns how many layers of the order may change at the most."""
        if self._settings.threshold is None or not high or self._is_met(high):
            return high
        return _bisect(lambda count: not self._is_met(count), 1, high) - 1

    def _fewest(self, high: int) -> int:
        """Returns how many layers of the order must change at the least; none where that brings nothing."""
        count = high
        if self._settings.threshold is not None and high:
            enough = self._is_met if self._is_met(high) else self._is_near(high)
            count = _bisect(enough, 1, high)
        better = self._result(count).verdict.distance < self._result(0).verdict.distance
        return count if better else 0

    def _is_near(self, high: int) -> Callable[[int], bool]:
        """Returns whether outputs are as close as with `high` layers changed, beyond which bytes buy nothing."""
        most = _NEAR * self._result(high).verdict.noise
        return lambda count: self._result(count).verdict.noise <= most

    def _is_met(self, count: int) -> bool:
        threshold = self._settings.threshold
        assert threshold is not None
        least = self._settings.metric in RATIOS
        return self._result(count).verdict.distance <= (-threshold if least else threshold)

    def _result(self, count: int) -> _MixedResult:
        """Quantizes with the first layers of the order changed, and with everything else that was asked for."""
        if count not in self._results:
            start = time.perf_counter()
            scheme = with_layers(self._base, self._chosen(count))
            data, summary = quantize_model(
                self._model,
                None,
                scheme,
                self._target,
                self._calibrating,
                None,
                self._max_memory,
                self._clock,
                self._histograms,
            )
            with self._clock.stage("judge"):
                verdict = verdict_on(data, self._judge, self._settings.metric, self._settings.output)
            self._results[count] = _MixedResult(data, summary, verdict, time.perf_counter() - start)
        return self._results[count]

    def _chosen(self, count: int) -> Chosen:
        return self._order[:count]

    def _finish(self, path: Path | None, count: int) -> tuple[bytes, Summary]:
        plain, best = self._result(0), self._result(count)
        levers = [self._lever(each, result, each == count) for each, result in self._results.items()]
        if self._settings.rank_only:
            levers += [
                LeverResult(
                    f"{types_of(each.form)} for {each.candidate.name!r} alone",
                    each.seconds,
                    each.bytes,
                    each.verdict.sqnr,
                    False,
                )
                for each in self._ranking
            ]
        notes = (*best.summary.notes, f"mixed precision: {self._brought(count, plain, best)}")
        if path is not None:
            save_bytes(best.data, path)
        seconds = dict(self._clock.seconds)
        return best.data, replace(best.summary, notes=notes, levers=tuple(levers), seconds=seconds)

    def _lever(self, count: int, result: _MixedResult, kept: bool) -> LeverResult:
        lever = described(self._chosen(count), self._candidates) if count else "as asked, without mixed precision"
        return LeverResult(lever, result.seconds, len(result.data), result.verdict.sqnr, kept)

    def _brought(self, count: int, plain: _MixedResult, best: _MixedResult) -> str:
        """Returns what changed, and what that cost or brought."""
        text = described(self._chosen(count), self._candidates)
        apart = f"on {len(self._judged)} samples held apart"
        if not count:
            text += f": {plain.verdict.sqnr:.1f} dB {apart}"
        else:
            text += (
                f": {best.verdict.sqnr:.1f} dB instead of {plain.verdict.sqnr:.1f} dB {apart}, "
                f"{len(best.data):,} bytes instead of {len(plain.data):,}"
            )
        limited = self._settings.threshold is not None and not self._settings.rank_only
        return text + ("" if not limited or self._is_met(count) else self._missed(best))

    def _missed(self, best: _MixedResult) -> str:
        name, threshold = self._settings.metric, self._settings.threshold
        found = -best.verdict.distance if name in RATIOS else best.verdict.distance
        return f"; {name} {threshold:g} cannot be met, {found:.4g} is the best that was found"


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the least number for which `holds` is true, which it is for `high` and from there on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
