"""One calibration from a loaded model to statistics of its activations."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

from quarkfast.algorithms import smoothable_axes
from quarkfast.calibration import CalibrationRun, calibrate_prepared, parse_bytes
from quarkfast.calibration.data import CalibrationData, model_inputs, open_data
from quarkfast.config import PRESETS, Scheme
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.external_constants import constants_in_files
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.subgraphs import graphs_by_path, values_by_path
from quarkfast.pipeline.calibration_source import calibration_key
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.preparation_steps import convert_for_target
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.recipes import PREPARATION
from quarkfast.pipeline.single_rows import keep_whole_samples
from quarkfast.pipeline.step import run_steps
from quarkfast.quantization import is_portable, needs_ranges, observed_channels, observed_tensors, place
from quarkfast.statistics import Calibration, StatisticsRequest
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["calibrate_model", "presets_with_statistics"]


def calibrate_model(
    model: ModelSource,
    calibration_data: CalibrationData,
    path: Path | None,
    schemes: Sequence[tuple[Scheme, Target]],
    clock: Clock,
    *,
    every_layer: bool,
    histogram: bool,
    moments: bool,
    executor: Executor | None,
    threads: int | None,
    max_memory: int | str | None,
    resume: bool,
) -> Calibration:
    """Gathers what any of `schemes` needs to know; the other arguments are those of :func:`quarkfast.calibrate`.

    Args:
        schemes: Each with its target. All rewrite the float model alike, as the first does, but for what targets
            convert: tensors keep names and values in that.
        every_layer: Whether to look at the channels of all layers, for whatever options there will be.
    """
    settings = _Wanted(histogram, moments, every_layer)
    limit, first = None if max_memory is None else parse_bytes(max_memory), schemes[0][0]
    with clock.stage("load"):
        context = ModelContext(
            model=load_model(model), opset=min(lowest_opset(*each) for each in schemes), scheme=first
        )
        key = calibration_key(context.model, first)
    with clock.stage("prepare"):
        run_steps(PREPARATION, context)
        request = _request(context.model, [each for each in schemes if not each[1].conversions], settings)
        converted = [each for each in schemes if each[1].conversions]
        context.conversions = tuple(dict.fromkeys(row for _, target in converted for row in target.conversions))
        convert_for_target(context)
        request |= _request(context.model, converted, settings)
        if not request:
            raise ModelError("calibrate: expected a model with a tensor to quantize, got none")
        prepared = context.model
    samples = open_data(calibration_data, model_inputs(prepared), first.samples, first.batch_size, first.preprocess)
    keep_whole_samples(samples, prepared)
    run = CalibrationRun(prepared, request, key, first.batch_size, threads, executor, limit, path, resume)
    with (
        constants_in_files(prepared, path, alone=executor is None),
        clock.stage("calibrate", samples.total) as report,
    ):
        found = calibrate_prepared(run, samples, report)
    _warn_of_bodies(prepared, found)
    return found


def presets_with_statistics() -> list[str]:
    """Returns the presets that need statistics: activations have scales, or channels are smoothed."""
    return [name for name, scheme in PRESETS.items() if needs_ranges(scheme) or scheme.smoothed]


class _Wanted(NamedTuple):
    histogram: bool
    moments: bool
    every_layer: bool


def _request(model: ir.Model, schemes: Sequence[tuple[Scheme, Target]], wanted: _Wanted) -> StatisticsRequest:
    """Returns what any of `schemes` needs to know, in the model's order."""
    static = [(scheme, target) for scheme, target in schemes if needs_ranges(scheme)]
    axes: dict[str, int] = {}
    for scheme, target in static:
        if is_portable(scheme, target):
            axes |= observed_channels(model, place(model, scheme, target), scheme, target, wanted.every_layer)
    smoothed: dict[str, int] = {}
    for scheme, target in schemes:
        if scheme.smoothed:
            smoothed |= smoothable_axes(model, place(model, scheme, target).quantized)
    tensors = dict.fromkeys((*observed_tensors(model, static), *axes)) if static else {}
    # Statistics do not say of which axis their channels are, so there are none where presets want different ones.
    agreed = {name: axis for name, axis in axes.items() if smoothed.get(name, axis) == axis}
    agreed |= {name: axis for name, axis in smoothed.items() if axes.get(name, axis) == axis}
    request = StatisticsRequest.of(tensors, histogram=wanted.histogram, moments=wanted.moments)
    return request | StatisticsRequest.of_channels(agreed)


def _warn_of_bodies(model: ir.Model, found: Calibration) -> None:
    """Names the bodies of If, Loop and Scan that no sample ran."""
    counts = {name: each.range.count for name, each in found.tensors.items()}
    owners = {name: graph for name, (_, graph) in values_by_path(model).items() if name in counts}
    for path, graph in graphs_by_path(model.graph):
        seen = [counts[name] for name, owner in owners.items() if owner is graph]
        if path and seen and not any(seen):
            node, body = path[:-1].rsplit(":", 1)
            warnings.warn(
                f"calibrate: expected every body to run, got no sample that runs {body} of {node!r}; "
                f"its {len(seen)} tensors have no range",
                stacklevel=4,
            )
