"""What is judged where there is no goal: options that rewrite the model, and equalization of poor outputs."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quarkfast.algorithms.cross_layer_equalization import CrossLayerEqualizationSettings, has_pairs_through_clip
from quarkfast.algorithms.layer_pairs import find_gated_pairs
from quarkfast.calibration.data import DataReader, Feed
from quarkfast.config import Scheme
from quarkfast.config.equalization import read_equalization
from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.evaluate.noise import Gains
from quarkfast.graph.load import ModelSource, load_model, model_bytes
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization.weight_precision import has_eight_bits
from quarkfast.search.job import Attempt, Made
from quarkfast.search.quality import Quality
from quarkfast.search.search import Candidate, Kind, Search, Tried
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["NoGoal", "asked_options", "equalized_further", "further_equalization", "poor_outputs"]

_SHIFTING = "activation shifting"

# What options are called that rewrite the model, with their fields in a scheme and what leaves them out.
_OPTIONS = (
    ("SmoothQuant", "smooth_alpha", None),
    ("Hadamard rotation", "rotation", "none"),
    (_SHIFTING, "shift_activations", False),
)

EQUALIZATION_SETTINGS = {"through_gates": "gates", "through_clip": "Clip"}
"""Settings of equalization that samples judge, and what each lets factors pass."""


@dataclass(slots=True)
class NoGoal:
    """No goal: outputs that are better in the mean of the holdout are better.

    Attributes:
        kind: Whether options were asked for that are judged.
        feeds: All samples, where they were read.
    """

    kind: Kind = "unasked"
    feeds: list[Feed] | None = None

    counted: Counted = field(default=Counted(), init=False)

    def start(self, search: Search) -> None:
        """Makes the model as it was asked for; where options are to be judged, without these, by some of the samples.

        Random samples, a calibration and large models judge nothing: options stay.
        """
        job = search.job
        attempt = job.attempt
        if not attempt.scheme.strict and asked_options_of(attempt.scheme) and job.samples is not None:
            loaded = load_model(job.model)
            if model_bytes(job.model, loaded) <= search.policy.judged_bytes:
                samples = job.open_samples()
                self.feeds = None if samples.random else [dict(feed) for feed in samples]
        if self.feeds is None or len(self.feeds) < search.policy.asked_least_samples:
            search.result = search.make_whole(attempt, self.feeds)
            return
        self.kind = "asked"
        search.open(self.feeds, search.policy.asked_samples)
        search.pull(Candidate("without", _without_asked(attempt, attempt)))

    def quality(self, judge: Judge, data: bytes, holdout: Sequence[Feed]) -> Quality:
        """Returns the mean ratio of outputs of each sample."""
        return Quality(math.inf, ratios=judge.noise(data).ratios())

    def is_met(self, found: Quality) -> bool:
        """Returns false: there is none."""
        return False

    def is_better(self, found: Quality, best: Quality, gain: float | None = None) -> bool:
        """Whether outputs gain so much in the mean; where nothing is said, whether they do not lose."""
        gains = Gains(best.ratios, found.ratios)
        return not gains.are_losses() if gain is None else gains.mean >= gain

    def finish(self, search: Search, best: Tried) -> Made:
        """Makes the best by all samples, unless it is there already."""
        made = search.result
        if made is None or best is not search.tried[0]:
            made = search.make_whole(self._chosen(search, best), self.feeds)
        notes = (*made.summary.notes, *search.notes)
        return made._replace(summary=replace(made.summary, notes=notes))

    def _chosen(self, search: Search, best: Tried) -> Attempt:
        """Returns the attempt with the rounding that was asked for, which is left out where it decides nothing."""
        asked, scheme = search.job.attempt.scheme, best.candidate.attempt.scheme
        rounding: dict[str, Any] = {"rounding": asked.rounding, "rounding_options": asked.rounding_options}
        return replace(best.candidate.attempt, scheme=replace(scheme, **rounding))


def asked_options_of(scheme: Scheme) -> list[str]:
    """Returns the names of the options of a scheme that rewrite the model and are judged."""
    names = [name for name, field_, none in _OPTIONS if getattr(scheme, field_) != none]
    further = further_equalization(scheme)
    return names if further is None else [*names, further]


def _without_asked(attempt: Attempt, asked: Attempt) -> Attempt:
    left_out: dict[str, Any] = {field_: none for _, field_, none in _OPTIONS}
    others = tuple(
        (name, value) for name, value in attempt.scheme.equalize_options if name not in EQUALIZATION_SETTINGS
    )
    return _tried(replace(attempt, scheme=replace(attempt.scheme, **left_out, equalize_options=others)), asked)


def _tried(attempt: Attempt, asked: Attempt) -> Attempt:
    """Returns what is tried for an attempt: shifting alone is for activations, whatever the codes of weights."""
    if asked_options_of(asked.scheme) != [_SHIFTING]:
        return attempt
    return replace(attempt, scheme=replace(attempt.scheme, rounding="nearest", rounding_options=()))


def asked_options(search: Search) -> Iterator[Candidate]:
    """Tries the options that were asked for, which stay unless outputs are worse for them.

    Offsets go with the ranges that are kept, so that both kinds of these are tried where the user named none.
    """
    asked = search.job.attempt
    scheme, names = asked.scheme, asked_options_of(asked.scheme)
    kinds = [scheme]
    if scheme.shift_activations and scheme.search_ranges is None and scheme.activation.method == "minmax":
        kinds.append(replace(scheme, activation=replace(scheme.activation, method="minmse")))
    only_equalized = names == [further_equalization(scheme)]
    least = search.policy.asked_equalization_gain if only_equalized else 0.0 if len(kinds) > 1 else None
    for kind in kinds:
        yield Candidate(" and ".join(names), _tried(replace(asked, scheme=kind), asked), least)
        least = sys.float_info.min if search.kept else least  # of two that are alike the first is taken
    base, *tried = search.tried
    if search.best is not base:
        return
    gains = max((Gains(base.quality.ratios, each.quality.ratios) for each in tried), key=lambda each: each.mean)
    why = (
        f"it brought less than {search.policy.asked_equalization_gain:g} dB"
        if only_equalized
        else "it made the model worse"
    )
    search.notes.append(f"{' and '.join(names)} was left out, for {why}: {gains}; strict=True keeps it")


def poor_outputs(search: Search) -> Iterator[Candidate]:
    """Tries equalization through gates and Clips where layers have one between them.

    The factors are found with some of the samples and judged on others, beside the first model, which was calibrated
    with these too, so that the comparison is rather against the factors.
    """
    job, attempt, made = search.job, search.job.attempt, search.result
    assert made is not None
    changed = equalized_further(job.model, attempt.scheme, attempt.target)
    feeds = [] if changed is None else _first(search)
    if changed is None or len(feeds) < search.policy.poor_least_samples:
        return
    search.open(feeds)
    plain = made._replace(data=search.uncorrected.data or made.data)
    name, ratio = (search.uncorrected.outputs or made.summary.outputs)[0]
    search.judge_made(Candidate("as asked", attempt), plain, time.perf_counter())
    gates = dict(changed.equalize_options).get("through_gates")
    gain = search.policy.poor_gate_gain if gates else search.policy.poor_clip_gain
    lever = str(further_equalization(changed))
    yield Candidate(lever, replace(attempt, scheme=changed), gain)
    if search.kept:
        gains = Gains(*(each.quality.ratios for each in search.tried))
        added = dict(changed.equalize_options).keys() - dict(attempt.scheme.equalize_options)
        left = ", ".join(f'"{setting}": False' for setting in sorted(added))
        search.notes.append(
            f"{lever} was added, for output {name!r} had {ratio:.1f} dB: {gains}; "
            f"equalize_options={{{left}}} leaves it out"
        )


def _first(search: Search) -> list[Feed]:
    """Returns the first samples, row by row where the model lets them be cut; none where they are not to be read."""
    if isinstance(search.job.samples, Iterator | DataReader):
        return []
    samples = search.job.open_samples()
    if samples.random:
        return []
    size = sum(array.nbytes for array in samples.first.values()) // max(samples.count(samples.first), 1)
    return samples.rows(min(search.policy.poor_samples, search.policy.poor_sample_bytes // max(size, 1)))


def further_equalization(scheme: Scheme) -> str | None:
    """Returns what equalization is called that goes through gates or Clips, or None where it goes through neither.

    Example:
        >>> from quarkfast.config import scheme_from
        >>> further_equalization(scheme_from("A8W8", {"equalize_options": {"through_clip": True}}))
        'equalization through Clip'
    """
    given = dict(scheme.equalize_options)
    names = [name for setting, name in EQUALIZATION_SETTINGS.items() if given.get(setting)]
    return f"equalization through {' and '.join(names)}" if names else None


def equalized_further(model: ModelSource, scheme: Scheme, target: Target) -> Scheme | None:
    """Returns a scheme with equalization through gates and Clips where the user left that open and layers ask for it.

    Activations of more than 8 bits have digits enough for small channels, and elements of blocks that are floats have
    exponents of their own.
    """
    given = dict(scheme.equalize_options)
    row = scheme.activation.format
    coarse = has_eight_bits(scheme.activation) or (row.is_block and row.is_evenly_spaced)
    open_ones = [setting for setting in EQUALIZATION_SETTINGS if setting not in given]
    if scheme.factors is None or not coarse or not open_ones:
        return None
    prepared = prepare(load_model(model), lowest_opset(scheme, target), scheme)
    settings = CrossLayerEqualizationSettings(scheme.factors, **given, policy=scheme.policy)
    found = {
        "through_gates": next(find_gated_pairs(prepared), None) is not None,
        "through_clip": has_pairs_through_clip(prepared, settings),
    }
    added = {setting: True for setting in open_ones if found[setting]}
    return replace(scheme, equalize_options=read_equalization({**given, **added})) if added else None
