"""Ranks layers by what other types for them do to the outputs, one layer at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quarkfast.calibration.data import Feed
from quarkfast.config import LayerRule, Scheme
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.errors import ConfigError
from quarkfast.evaluate.distance import AS_THEY_STAND, Verdict, verdict_on
from quarkfast.evaluate.judge import Judge
from quarkfast.graph.load import ModelSource
from quarkfast.pipeline.calibrate_model import calibrate_model
from quarkfast.pipeline.mixed_layers import Chosen, with_layers
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.quantization import needs_ranges
from quarkfast.quantization.layer_candidates import LayerCandidate
from quarkfast.statistics import Calibration
from quarkfast.targets import Target

__all__ = ["LayerRanking", "RankedLayer", "size_of"]


@dataclass(frozen=True, slots=True)
class RankedLayer:
    """A layer, the form that is best for it, and what a model was like that tells its part of the noise.

    Attributes:
        candidate: The layer.
        form: What it gets.
        verdict: With ``objective="speed"``, and where layers are only ranked, of the model in which this layer alone
            has the form; else of that in which every other layer has it.
        bytes: Size of that model.
        seconds: Wall time.
    """

    candidate: LayerCandidate
    form: LayerRule
    verdict: Verdict
    bytes: int
    seconds: float


def size_of(candidate: LayerCandidate, settings: MixedPrecision) -> int:
    """Returns what the share counts of a layer: one, bytes of its weights, or multiplications.

    Raises:
        ConfigError: If multiplications are to be counted and shapes are unknown.
    """
    if settings.share_of == "layers":
        return 1
    if settings.share_of == "bytes":
        return candidate.bytes
    if candidate.operations is None:
        raise ConfigError(
            f"mixed_precision: share_of: expected layers or bytes where the shapes of {candidate.name!r} are unknown, "
            "got operations"
        )
    return candidate.operations


class LayerRanking:
    """Quantizes with one layer changed at a time: to the nearest, and by one calibration for all."""

    def __init__(
        self,
        model: ModelSource,
        base: Scheme,
        target: Target,
        settings: MixedPrecision,
        candidates: Sequence[LayerCandidate],
        feeds: Sequence[Feed],
        reference: bytes,
        max_memory: int | str | None,
        clock: Clock,
    ) -> None:
        """Runs the float model on the samples that rank, and calibrates on all of `feeds`."""
        self._model, self._target, self._settings, self._candidates = model, target, settings, candidates
        self._feeds, self._max_memory, self._clock = list(feeds), max_memory, clock
        self._quick = replace(base, bias_correction=False, rounding="nearest", rounding_options=())
        self._judge = Judge(reference, self._feeds[: settings.samples], AS_THEY_STAND)
        self._statistics = self._calibrate()

    def ranked(self) -> list[RankedLayer]:
        """Returns the layers in the order in which they should change.

        With ``objective="speed"`` each is changed alone, and those come first that make least noise. With ``"quality"``
        all but one are changed: beside the noise of all the others, what one layer brings would not be seen. Those
        come first without which there is most noise. Both count for each byte or multiplication where the share does.
        """
        restored = self._settings.objective == "quality" and not self._settings.rank_only
        every = [(each, self._best_form(each)) for each in self._candidates]
        found = list[RankedLayer]()
        with self._clock.stage("rank layers", len(every)) as report:
            plain = self._try(every if restored else []).verdict.noise
            for candidate, form in every:
                changed = [each for each in every if (each[0] is candidate) != restored]
                found.append(replace(self._try(changed), candidate=candidate, form=form))
                report(len(found))
        sign = -1 if restored else 1

        def cost(each: RankedLayer) -> float:
            return sign * (each.verdict.noise - plain) / max(size_of(each.candidate, self._settings), 1)

        return sorted(found, key=cost)

    def _best_form(self, candidate: LayerCandidate) -> LayerRule:
        """Returns the form that leaves the outputs closest when the layer alone has it."""
        if len(candidate.forms) == 1:
            return candidate.forms[0]
        return min(candidate.forms, key=lambda form: self._try([(candidate, form)]).verdict.distance)

    def _try(self, chosen: Chosen) -> RankedLayer:
        """Quantizes with these layers changed; the caller knows which layer this is about."""
        start, scheme = time.perf_counter(), with_layers(self._quick, chosen)
        known = self._statistics if needs_ranges(scheme) else None
        feeds = None if known is not None else self._feeds
        data, _ = quantize_model(self._model, None, scheme, self._target, feeds, known, self._max_memory, Clock())
        candidate, form = chosen[0] if chosen else (self._candidates[0], self._candidates[0].forms[0])
        verdict = verdict_on(data, self._judge, self._settings.metric, self._settings.output)
        return RankedLayer(candidate, form, verdict, len(data), time.perf_counter() - start)

    def _calibrate(self) -> Calibration | None:
        """Returns statistics for every choice of layers; None where they cannot be shared, or none are needed."""
        counts = range(max(len(each.forms) for each in self._candidates))
        every = [self._quick]
        for index in counts:
            chosen = [(each, each.forms[min(index, len(each.forms) - 1)]) for each in self._candidates]
            every.append(with_layers(self._quick, chosen))
        if not any(map(needs_ranges, every)) or len({scheme.factors for scheme in every}) > 1:
            return None
        return calibrate_model(
            self._model,
            self._feeds,
            None,
            [(scheme, self._target) for scheme in every],
            self._clock,
            every_layer=False,
            histogram=True,
            moments=False,
            executor=None,
            threads=None,
            max_memory=self._max_memory,
            resume=False,
        )
