"""Outputs that so few bits leave poor: equalization goes further unasked, and stays where other samples gain by it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from quarkfast.calibration.data import CalibrationData, DataReader, Feed, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.evaluate.judge import Judge, hold_out
from quarkfast.evaluate.noise import Gains
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.context import Uncorrected
from quarkfast.pipeline.further_equalization import equalized_further, further_equalization
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import POOR, Summary
from quarkfast.statistics import Calibration
from quarkfast.targets import Target

__all__ = ["quantize_improved_where_poor"]

# In dB, what it has to bring in the mean for a Mul in front of each gate that nobody asked for. Of twelve pairs of a
# network and a preset whose outputs are poor, eight gain 3.4 to 31 dB on 32 others, one 1.5, and three nothing.
_GAIN = 3.0

# And where a Clip is all that it goes through, which costs nothing.
_GAIN_THROUGH_CLIP = 1.0

# Samples that are read for that.
_READ = 32

# Fewer samples than this tell nothing of others.
_FEWEST = 8

# Bytes of samples in memory, and of a model above which three of it are not held at once.
_BUDGET, _LARGEST = 256 << 20, 1 << 30


class _Made(NamedTuple):
    """A model that was made, and the same without output bias correction that nobody asked for."""

    data: bytes
    summary: Summary
    uncorrected: Uncorrected

    @property
    def plain(self) -> bytes:
        """The model without that."""
        return self.uncorrected.data or self.data

    @property
    def worst(self) -> tuple[str, float]:
        """The worst output of that on the first sample, and its ratio in dB."""
        outputs = self.uncorrected.outputs or self.summary.outputs
        return outputs[0] if outputs else ("", math.inf)


@dataclass(frozen=True, slots=True)
class _Job:
    """What is quantized, but for the scheme."""

    model: ModelSource
    target: Target
    samples: CalibrationData | None
    calibration: Calibration | str | os.PathLike[str] | None
    max_memory: int | str | None
    clock: Clock
    histograms: bool
    may_correct_biases: bool

    def make(self, scheme: Scheme, path: Path | None) -> _Made:
        given = (self.samples, self.calibration, self.max_memory, self.clock, self.histograms)
        kept = Uncorrected()
        data, summary = quantize_model(
            self.model, path, scheme, self.target, *given, uncorrected=kept if self.may_correct_biases else None
        )
        return _Made(data, summary, kept)

    def make_of(self, scheme: Scheme, feeds: Sequence[Feed]) -> bytes:
        """Makes a model by other samples, in which no biases are corrected that nobody asked for."""
        read = replace(scheme, samples=None, preprocess=None)
        given = (list(feeds), None, self.max_memory, self.clock)
        return quantize_model(self.model, None, read, self.target, *given)[0]

    def gains(self, before: bytes, after: bytes, feeds: Sequence[Feed]) -> Gains:
        """Returns what the outputs of one model gain by another."""
        with self.clock.stage("judge"), Judge(to_proto(load_model(self.model)), feeds) as judge:
            return Gains(*(judge.noise(data).ratios() for data in (before, after)))


def quantize_improved_where_poor(
    model: ModelSource,
    path: Path | None,
    scheme: Scheme,
    target: Target,
    calibration_data: CalibrationData | None,
    calibration: Calibration | str | os.PathLike[str] | None,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
    *,
    may_correct_biases: bool = True,
) -> tuple[bytes, Summary]:
    """Quantizes `model`, and once more where an output has below 12 dB on the first sample and gains by that.

    Equalization goes through gates (hard-swish, SiLU, Mish) and Clips (ReLU6) then, where layers have one between them.
    Samples that can be read once judge nothing, nor do random ones. `strict`, and another rounding than to the nearest
    codes, leave it out. Biases are corrected by outputs below 20 dB either way, if they may
    (`quarkfast.pipeline.poor_output_steps`).

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    samples = calibration_data
    job = _Job(model, target, samples, calibration, max_memory, clock, histograms, may_correct_biases)
    made = job.make(scheme, path)
    asked = scheme.strict or scheme.rounding != "nearest"
    small = made.summary.bytes_before <= _LARGEST
    if not asked and samples is not None and small and made.worst[1] < POOR:
        made = _equalized(job, scheme, made, path)
    return made.data, made.summary


def _equalized(job: _Job, scheme: Scheme, made: _Made, path: Path | None) -> _Made:
    """Returns the model with equalization through gates and Clips, if that helps.

    The factors are found with some of the samples and judged on others, beside the first model, which was calibrated
    with these too, so that the comparison is rather against the factors.
    """
    changed = equalized_further(job.model, scheme, job.target)
    feeds = [] if changed is None else _feeds(job.model, scheme, job.samples)
    if changed is None or len(feeds) < _FEWEST:
        return made
    calibrating, judged = hold_out(feeds)
    gains = job.gains(made.plain, job.make_of(changed, calibrating), judged)
    if gains.mean < (_GAIN if dict(changed.equalize_options).get("through_gates") else _GAIN_THROUGH_CLIP):
        return made
    name, ratio = made.worst
    added = dict(changed.equalize_options).keys() - dict(scheme.equalize_options)
    left = ", ".join(f'"{setting}": False' for setting in sorted(added))
    note = (
        f"{further_equalization(changed)} was added, for output {name!r} had {ratio:.1f} dB: {gains}; "
        f"equalize_options={{{left}}} leaves it out"
    )
    found = job.make(changed, path)
    return found._replace(summary=replace(found.summary, notes=(*found.summary.notes, note)))


def _feeds(model: ModelSource, scheme: Scheme, data: CalibrationData | None) -> list[Feed]:
    """Returns the first samples, row by row where the model lets them be cut; none where they are not to be read."""
    if data is None or isinstance(data, Iterator | DataReader):
        return []
    loaded = load_model(model)
    samples = open_data(data, model_inputs(loaded), scheme.samples, scheme.batch_size, scheme.preprocess)
    if samples.random:
        return []
    cut_to_rows(samples, loaded)
    size = sum(array.nbytes for array in samples.first.values()) // max(samples.count(samples.first), 1)
    return samples.rows(min(_READ, _BUDGET // max(size, 1)))
