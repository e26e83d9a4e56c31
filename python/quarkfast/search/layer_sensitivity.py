"""Sensitivity of layers: what other types for one of them do to the outputs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quarkfast.config import LayerRule, Scheme
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.errors import ConfigError
from quarkfast.evaluate.distance import AS_THEY_STAND, Verdict, verdict_on
from quarkfast.evaluate.judge import Judge
from quarkfast.pipeline.calibrate_model import calibrate_model
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.quantization import needs_ranges
from quarkfast.quantization.layer_candidates import LayerCandidate, rules_of
from quarkfast.search.job import Attempt
from quarkfast.search.search import Search
from quarkfast.statistics import Calibration
from quarkfast.wording import first_names

__all__ = ["Chosen", "LayerSensitivity", "RankedLayer", "described", "size_of", "types_of", "with_layers"]

Chosen = Sequence[tuple[LayerCandidate, LayerRule]]
"""Layers, and what each gets."""


def with_layers(base: Scheme, chosen: Chosen) -> Scheme:
    """Returns `base` with other types for layers; its own rules win over them."""
    return replace(base, layers=(*rules_of(chosen), *base.layers))


def described(chosen: Chosen, candidates: Sequence[LayerCandidate]) -> str:
    """Returns which layers get what, in words."""
    if not chosen:
        return f"none of {len(candidates)} layers has other types than the preset"
    names = first_names(each.name for each, _ in chosen)
    total = max(sum(each.bytes for each in candidates), 1)
    share = 100 * sum(each.bytes for each, _ in chosen) / total
    types = " and ".join(dict.fromkeys(types_of(form) for _, form in chosen))
    return f"{types} for {len(chosen)} of {len(candidates)} layers ({names}; {share:.0f} % of their weights' bytes)"


def types_of(form: LayerRule) -> str:
    """Returns the types of a form, in words."""
    found = {
        part: dict(change.values).get("dtype", "other settings")
        for part, change in (("activations", form.activation), ("weights", form.weight))
        if change is not None
    }
    types = set(found.values())
    return (
        types.pop()
        if len(types) == 1 and len(found) == 2
        else ", ".join(f"{each} {part}" for part, each in found.items())
    )


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


class LayerSensitivity:
    """Quantizes with one layer changed at a time: to the nearest, and by one calibration for all."""

    def __init__(
        self, search: Search, base: Attempt, settings: MixedPrecision, candidates: Sequence[LayerCandidate]
    ) -> None:
        """Runs the float model on the samples that rank, and calibrates on all that calibrate."""
        self._job, self._feeds, self._target = search.job, search.calibration, base.target
        self._settings, self._candidates = settings, candidates
        self._quick = replace(base.scheme, bias_correction=False, rounding="nearest", rounding_options=())
        self._judge = Judge(search.reference, self._feeds[: settings.samples], AS_THEY_STAND)
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
        with self._job.clock.stage("rank layers", len(every)) as report:
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
        data, _ = quantize_model(
            self._job.model, None, scheme, self._target, feeds, known, self._job.max_memory, Clock()
        )
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
            self._job.model,
            self._feeds,
            None,
            [(scheme, self._target) for scheme in every],
            self._job.clock,
            every_layer=False,
            histogram=True,
            moments=False,
            executor=None,
            threads=None,
            max_memory=self._job.max_memory,
            resume=False,
        )
