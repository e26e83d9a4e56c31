"""Outputs that so few bits leave poor: equalization goes through gates and Clips where that helps, unasked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from quarkfast.algorithms.held_apart import Gains
from quarkfast.calibration.data import CalibrationData, DataReader, Feed, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.further_equalization import equalized_further, further_equalization
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import POOR, Summary
from quarkfast.reconstruction.output_error import ReferenceOutputs
from quarkfast.statistics import Calibration
from quarkfast.targets import Target

__all__ = ["quantize_equalized_where_poor"]

# In dB, what it has to bring in the mean for a Mul in front of each gate that nobody asked for. Of twelve pairs of a
# network and a preset whose outputs are poor, eight gain 3.4 to 31 dB on 32 others, one 1.5, and three nothing.
_GAIN = 3.0

# And where a Clip is all that it goes through, which costs nothing.
_GAIN_THROUGH_CLIP = 1.0

# Samples that judge, at most a quarter of those that are read, and those that calibrate for that.
_HELD_APART, _CALIBRATING = 8, 24

# Fewer samples than this tell nothing of others.
_FEWEST = 8

# Bytes of samples in memory, and of a model above which three of it are not held at once.
_BUDGET, _LARGEST = 256 << 20, 1 << 30


def quantize_equalized_where_poor(
    model: ModelSource,
    path: Path | None,
    scheme: Scheme,
    target: Target,
    calibration_data: CalibrationData | None,
    calibration: Calibration | str | os.PathLike[str] | None,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
) -> tuple[bytes, Summary]:
    """Quantizes `model`, and once more with equalization through gates and Clips if outputs are poor and gain by it.

    Outputs are poor on the first sample (`Summary.outputs`). Where the model has gates (hard-swish, SiLU, Mish) or
    Clips (ReLU6) between layers, the factors are found with some of the samples and judged on others, beside the first
    model, which was calibrated with these too, so that the comparison is rather against the factors. Samples that can
    be read once judge nothing, nor do random ones.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    given: tuple[Any, ...] = (max_memory, clock, histograms)
    data, summary = quantize_model(model, path, scheme, target, calibration_data, calibration, *given)
    poor = summary.outputs[:1]
    asked = scheme.strict or scheme.rounding != "nearest"
    if calibration_data is None or asked or not poor or poor[0][1] >= POOR or summary.bytes_before > _LARGEST:
        return data, summary
    changed = equalized_further(model, scheme, target)
    feeds = [] if changed is None else _feeds(model, scheme, calibration_data)
    if changed is None or len(feeds) < _FEWEST:
        return data, summary
    gains = _gains(model, data, changed, target, feeds, max_memory, clock)
    if gains.mean < (_GAIN if dict(changed.equalize_options).get("through_gates") else _GAIN_THROUGH_CLIP):
        return data, summary
    data, summary = quantize_model(model, path, changed, target, calibration_data, calibration, *given)
    name, ratio = poor[0]
    added = dict(changed.equalize_options).keys() - dict(scheme.equalize_options)
    left = ", ".join(f'"{setting}": False' for setting in sorted(added))
    note = (
        f"{further_equalization(changed)} was added, for output {name!r} had {ratio:.1f} dB: {gains}; "
        f"equalize_options={{{left}}} leaves it out"
    )
    return data, replace(summary, notes=(*summary.notes, note))


def _feeds(model: ModelSource, scheme: Scheme, data: CalibrationData) -> list[Feed]:
    """Returns the first samples, row by row where the model lets them be cut; none where they are not to be read."""
    if isinstance(data, Iterator | DataReader):
        return []
    loaded = load_model(model)
    samples = open_data(data, model_inputs(loaded), scheme.samples, scheme.batch_size, scheme.preprocess)
    if samples.random:
        return []
    cut_to_rows(samples, loaded)
    size = sum(array.nbytes for array in samples.first.values()) // max(samples.count(samples.first), 1)
    return samples.rows(min(_HELD_APART + _CALIBRATING, _BUDGET // max(size, 1)))


def _gains(
    model: ModelSource,
    data: bytes,
    changed: Scheme,
    target: Target,
    feeds: Sequence[Feed],
    max_memory: int | str | None,
    clock: Clock,
) -> Gains:
    """Returns what the outputs of a quantized model gain by another scheme, on samples that it is not calibrated on."""
    apart = min(_HELD_APART, len(feeds) // 4)
    calibrating, judging = list(feeds[:-apart]), feeds[-apart:]
    read = replace(changed, samples=None, preprocess=None)
    tried, _ = quantize_model(model, None, read, target, calibrating, None, max_memory, clock)
    with clock.stage("judge"), ReferenceOutputs(to_proto(load_model(model)), judging) as outputs:
        return Gains(*(outputs.ratios_of(onnx.load_model_from_string(each)) for each in (data, tried)))
