"""Outputs that so few bits leave poor: what helps them is tried unasked, and kept where other samples gain by it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import onnx

from quarkfast.algorithms.held_apart import Gains, split
from quarkfast.algorithms.output_bias_correction import OutputBiasCorrectionSettings
from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import CalibrationData, DataReader, Feed, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.config.options.changes import set_output_bias_correction
from quarkfast.errors import ConfigError
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.further_equalization import equalized_further, further_equalization
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import POOR, Summary
from quarkfast.reconstruction import linear_layers
from quarkfast.reconstruction.output_error import ReferenceOutputs
from quarkfast.statistics import Calibration
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["quantize_improved_where_poor"]

# In dB, what it has to bring in the mean for a Mul in front of each gate that nobody asked for. Of twelve pairs of a
# network and a preset whose outputs are poor, eight gain 3.4 to 31 dB on 32 others, one 1.5, and three nothing.
_GAIN = 3.0

# And where a Clip is all that it goes through, which costs nothing.
_GAIN_THROUGH_CLIP = 1.0

# In dB, what biases that make up for what rounded activations shift have to bring in the mean, and to lead to. Where
# outputs remain poor, decibels say little: a text recognizer in XINT8 reads 63 % with 6.1 dB, and 48 % with 10.4.
_GAIN_OF_BIASES, _LEAST_WITH_BIASES = 3.0, POOR

# Samples that judge, at most a quarter of those that are read, and those that calibrate for that.
_HELD_APART, _CALIBRATING = 8, 24

# Fewer samples than this tell nothing of others.
_FEWEST = 8

# Bytes of samples in memory, and of a model above which three of it are not held at once.
_BUDGET, _LARGEST = 256 << 20, 1 << 30


class _Made(NamedTuple):
    """A model that was made, the scheme that it was made by, and notes of what was added to the one asked for."""

    data: bytes
    summary: Summary
    scheme: Scheme
    added: tuple[str, ...] = ()

    @property
    def worst(self) -> tuple[str, float]:
        """The worst output on the first sample, and its ratio in dB."""
        return self.summary.outputs[0] if self.summary.outputs else ("", math.inf)

    def noting(self, *notes: str) -> _Made:
        summary = replace(self.summary, notes=(*self.summary.notes, *notes))
        return self._replace(summary=summary, added=(*self.added, *notes))


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

    def make(self, scheme: Scheme, path: Path | None) -> _Made:
        given = (self.samples, self.calibration, self.max_memory, self.clock, self.histograms)
        return _Made(*quantize_model(self.model, path, scheme, self.target, *given), scheme)

    def make_of(self, scheme: Scheme, feeds: Sequence[Feed]) -> _Made:
        """Makes a model by other samples."""
        read = replace(scheme, samples=None, preprocess=None)
        given = (list(feeds), None, self.max_memory, self.clock)
        return _Made(*quantize_model(self.model, None, read, self.target, *given), scheme)

    def gains(self, before: _Made, after: _Made, feeds: Sequence[Feed], features: str = "") -> Gains:
        """Returns what the outputs of one model gain by another, and a tensor that counts as one where all have it."""
        reference = to_proto(load_model(self.model))
        models = [onnx.load_model_from_string(each.data) for each in (before, after)]
        everywhere = all(_computes(each, features) for each in (reference, *models))
        with self.clock.stage("judge"), ReferenceOutputs(reference, feeds, features if everywhere else "") as outputs:
            return Gains(*map(outputs.ratios_of, models))


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
    may_correct: bool = True,
) -> tuple[bytes, Summary]:
    """Quantizes `model`, and once more with what its outputs gain by, where one has below 12 dB on the first sample.

    1. Equalization goes through gates (hard-swish, SiLU, Mish) and Clips (ReLU6), where layers have one between them.
    2. What is below 12 dB still gets output bias correction if it may, where 8 samples held apart gain 3 dB and have 12
       then.

    Samples that can be read once judge nothing, nor do random ones. `strict`, and another rounding than to the nearest
    codes, leave both out, and without bias correction there is none of outputs.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    job = _Job(model, target, calibration_data, calibration, max_memory, clock, histograms)
    made = job.make(scheme, path)
    asked = scheme.strict or scheme.rounding != "nearest"
    small = made.summary.bytes_before <= _LARGEST
    if asked or calibration_data is None or not small or made.worst[1] >= POOR:
        return made.data, made.summary
    made = _equalized(job, made, path)
    if may_correct and made.worst[1] < POOR:
        made = _corrected(job, made, path)
    return made.data, made.summary


def _equalized(job: _Job, made: _Made, path: Path | None) -> _Made:
    """Returns the model with equalization through gates and Clips, if that helps.

    The factors are found with some of the samples and judged on others, beside the first model, which was calibrated
    with these too, so that the comparison is rather against the factors.
    """
    changed = equalized_further(job.model, made.scheme, job.target)
    feeds = [] if changed is None else _feeds(job.model, made.scheme, job.samples)
    if changed is None or len(feeds) < _FEWEST:
        return made
    apart = min(_HELD_APART, len(feeds) // 4)
    gains = job.gains(made, job.make_of(changed, feeds[:-apart]), feeds[-apart:])
    if gains.mean < (_GAIN if dict(changed.equalize_options).get("through_gates") else _GAIN_THROUGH_CLIP):
        return made
    name, ratio = made.worst
    added = dict(changed.equalize_options).keys() - dict(made.scheme.equalize_options)
    left = ", ".join(f'"{setting}": False' for setting in sorted(added))
    return job.make(changed, path).noting(
        f"{further_equalization(changed)} was added, for output {name!r} had {ratio:.1f} dB: {gains}; "
        f"equalize_options={{{left}}} leaves it out"
    )


def _corrected(job: _Job, made: _Made, path: Path | None) -> _Made:
    """Returns the model with output bias correction, if that helps the samples that it holds apart."""
    if made.scheme.output_bias_correction or not made.scheme.bias_correction:
        return made
    try:
        changed = set_output_bias_correction(made.scheme, True)
    except ConfigError:  # the preset has no such biases
        return made
    feeds = _feeds(job.model, made.scheme, job.samples)
    if len(feeds) < _FEWEST:
        return made
    corrected = job.make(changed, None)
    settings = OutputBiasCorrectionSettings()
    _, apart = split(feeds[: settings.samples + settings.held_apart], settings.samples, settings.held_apart)
    layers = list(linear_layers(prepare(load_model(job.model), lowest_opset(changed, job.target), changed)))
    gains = job.gains(made, corrected, apart, layers[-1].data if layers else "")
    if gains.mean < _GAIN_OF_BIASES or gains.after < _LEAST_WITH_BIASES:
        return made
    if path is not None:
        save_bytes(corrected.data, path)
    name, ratio = made.worst
    why = f"for output {name!r} had {ratio:.1f} dB"
    return corrected.noting(
        *made.added, f"output bias correction was added, {why}; output_bias_correction=False leaves it out"
    )


def _computes(model: onnx.ModelProto, tensor: str) -> bool:
    return any(tensor in node.output for node in model.graph.node)


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
    return samples.rows(min(_HELD_APART + _CALIBRATING, _BUDGET // max(size, 1)))
