"""Outputs that 8 bits leave poor: layers are equalized through gates where that helps, without being asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from quarkfast.algorithms.gated_pairs import find_gated_pairs
from quarkfast.algorithms.held_apart import Gains
from quarkfast.calibration.data import CalibrationData, DataReader, Feed, model_inputs, open_data
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.config import Scheme
from quarkfast.config.equalization import read_equalization
from quarkfast.graph.load import ModelSource, load_model, model_bytes
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import POOR, Summary
from quarkfast.quantization.weight_precision import has_eight_bits
from quarkfast.reconstruction.output_error import ReferenceOutputs
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["quantize_equalized_where_poor"]

_GATES = "through_gates"

# In dB, what it has to bring in the mean for a Mul in front of each gate that nobody asked for. Of twelve pairs of a
# network and a preset whose outputs are poor, eight gain 3.4 to 31 dB on 32 others, one 1.5, and three nothing.
_GAIN = 3.0

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
    calibration: Any,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
) -> tuple[bytes, Summary]:
    """Quantizes `model`, and once more with equalization through gates if outputs are poor and gain by it.

    Outputs are poor on the first sample (`Summary.outputs`). Where the model has gates (hard-swish, SiLU, Mish), the
    factors are found with some of the samples and judged on others, beside the model that there is, which has seen
    these: that speaks against the factors. Samples that can be read once judge nothing, nor do random ones.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    given: tuple[Any, ...] = (max_memory, clock, histograms)
    data, summary = quantize_model(model, path, scheme, target, calibration_data, calibration, *given)
    poor = summary.outputs[:1]
    if calibration_data is None or not poor or poor[0][1] >= POOR or not _may_equalize(model, scheme, target):
        return data, summary
    feeds = _feeds(model, scheme, calibration_data)
    if len(feeds) < _FEWEST:
        return data, summary
    own = read_equalization({**dict(scheme.equalize_options), _GATES: True})
    changed = replace(scheme, equalize_options=own)
    gains = _gains(model, data, changed, target, feeds, max_memory, clock)
    if gains.mean < _GAIN:
        return data, summary
    data, summary = quantize_model(model, path, changed, target, calibration_data, calibration, *given)
    name, ratio = poor[0]
    note = (
        f"equalization through gates was added, for output {name!r} had {ratio:.1f} dB: {gains}; "
        f'equalize_options={{"{_GATES}": False}} leaves it out'
    )
    return data, replace(summary, notes=(*summary.notes, note))


def _may_equalize(model: ModelSource, scheme: Scheme, target: Target) -> bool:
    """Whether a scheme leaves the choice, and the model has gates between layers and is no larger than may be tried."""
    asked = scheme.strict or scheme.rounding != "nearest" or _GATES in dict(scheme.equalize_options)
    if asked or scheme.factors is None or not has_eight_bits(scheme.activation):
        return False
    loaded = load_model(model)
    if model_bytes(model, loaded) > _LARGEST:
        return False
    prepared = prepare(loaded, lowest_opset(scheme, target), scheme)
    return next(find_gated_pairs(prepared), None) is not None


def _feeds(model: ModelSource, scheme: Scheme, data: CalibrationData) -> list[Feed]:
    """Returns the first samples, row by row where the model lets them be cut; none where they are not to be read."""
    if isinstance(data, Iterator | DataReader):
        return []
    loaded = load_model(model)
    samples = open_data(data, model_inputs(loaded), scheme.samples, scheme.batch_size, scheme.preprocess)
    if samples.random:
        return []
    cut_to_rows(samples, to_proto(loaded).SerializeToString())
    size = sum(array.nbytes for array in samples.first.values()) // max(rows_of(samples.first), 1)
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
