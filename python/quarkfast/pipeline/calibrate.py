"""Calibration by itself: a model and samples in, statistics out, for any number of quantizations."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from quarkfast.config import PRESETS, Scheme
from quarkfast.errors import ConfigError
from quarkfast.pipeline.progress import Clock, Progress
from quarkfast.pipeline.resolve import resolve

if TYPE_CHECKING:
    from quarkfast.calibration.data import CalibrationData
    from quarkfast.deferred import ir
    from quarkfast.graph.load import ModelSource
    from quarkfast.statistics import Calibration
    from quarkfast.targets import Target

__all__ = ["calibrate", "calibration_key", "merge_calibrations", "open_calibration"]

# Fields of a scheme that leave the float model, and with it every activation, as it is. Any other field changes the
# key, so that one added later cannot let old statistics pass for new ones.
_NEUTRAL = (
    *("name", "target", "activation", "weight", "bias", "encoding", "keep_float_weights", "force_pass_through"),
    *("clip_bfloat16", "packed_weights", "block_rounding", "portable"),
    *("op_types", "include", "exclude", "exclude_op_types", "layers", "tensors", "samples", "batch_size", "preprocess"),
)


def calibrate(
    model: ModelSource,
    calibration_data: CalibrationData,
    output: str | os.PathLike[str] | None = None,
    *,
    preset: str | Scheme | None = None,
    histogram: bool = True,
    moments: bool = False,
    executor: Executor | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Calibration:
    """Gathers statistics of every tensor that a preset may quantize.

    Bodies of If, Loop and Scan are looked into as well, and models in float16 and bfloat16 as they are. A tensor of a
    body is called ``"node:attribute:tensor"``.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        calibration_data: As for :func:`quarkfast.quantize`.
        output: Where to write the result: a JSON file, with an .npz file of the same name beside it. What was gathered
            is kept there if the run is interrupted or fails. None writes nothing.
        preset: Whose tensors to observe; None means those of every preset whose activations are integers.
        histogram: Whether to count histograms, which every method but the extremes reads.
        moments: Whether to sum values and their squares.
        executor: Where to run the model: any executor of ``concurrent.futures``, such as a ``ProcessPoolExecutor`` or
            that of a Dask client. None means this process. The result has the same bytes.
        threads: Threads of ONNX Runtime within an operator, in each process; None leaves the choice to it.
        max_memory: Most memory that this process may hold, in bytes or as text such as ``"2GB"``. Batches are cut to
            it; where that does not help, the run is refused before it begins.
        resume: Whether to go on with what was cut short at `output`; the data must be the same, from the beginning.
        progress: Called as stages begin and samples are read: stage, samples done, samples in all or None.
        **options: Rows of :data:`quarkfast.OPTIONS`, such as ``samples``, ``batch_size``, ``preprocess``, ``exclude``;
            ``target`` wants a `preset`.

    Returns:
        The statistics. They depend on the samples alone, not on their order or on batches, as far as ONNX Runtime's
        activations do not.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read, or has no tensor to observe.
        OutputError: If the result cannot be written.
        CalibrationError: If the data is missing or does not fit the model, reading it fails, the memory does not
            suffice, or there is nothing to resume.
        UnsupportedError: If this version, onnx or onnxruntime cannot do it.

    Warns:
        UserWarning: If no sample ran a body of an If, Loop or Scan.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> calibration = quarkfast.calibrate(MODEL, load_images().calibration, "calibration.json", samples=64)
        >>> results = [quarkfast.quantize(MODEL, preset=name, calibration=calibration) for name in ("A8W8", "U8S8")]
    """
    if preset is None and "target" in options:
        raise ConfigError("calibrate: expected a preset beside target, got none; name the one to quantize to")
    schemes = [resolve(each, options) for each in ([preset] if preset is not None else _integer_presets())]
    first = schemes[0][0]
    if first.weights_only:
        raise ConfigError(f"calibrate: expected a preset that quantizes activations, got {first.name}")
    clock = Clock(progress)
    with clock.stage("import"):
        from quarkfast.atomic_files import check_output
        from quarkfast.calibration import Gather, Job, calibrate_prepared, parse_bytes
        from quarkfast.calibration.data import model_inputs, open_data
        from quarkfast.graph.external_constants import constants_in_files
        from quarkfast.graph.load import load_model
        from quarkfast.pipeline.prepare import prepare
        from quarkfast.writers import lowest_opset
    path = None if output is None else check_output(output)
    limit = None if max_memory is None else parse_bytes(max_memory)
    with clock.stage("load"):
        loaded = load_model(model)
        key = calibration_key(loaded, first)
    with clock.stage("prepare"):
        prepared = prepare(loaded, min(lowest_opset(*each) for each in schemes), factors=first.factors)
        axes = _channels(prepared, schemes, preset is None)
        tensors = list(dict.fromkeys((*_observed(prepared, schemes), *axes)))
        del loaded  # what preparation has replaced
    samples = open_data(calibration_data, model_inputs(prepared), first.samples, first.batch_size, first.preprocess)
    gather = Gather(histogram, moments, threads, axes)
    job = Job(prepared, tensors, key, gather, first.batch_size, executor, limit, path, resume)
    with (
        constants_in_files(prepared, None if path is None else path.parent, alone=executor is None),
        clock.stage("calibrate", samples.total) as report,
    ):
        found = calibrate_prepared(job, samples, report)
    _warn_of_bodies(prepared, found)
    return found


def merge_calibrations(
    calibrations: Sequence[Calibration | str | os.PathLike[str]], output: str | os.PathLike[str] | None = None
) -> Calibration:
    """Adds up calibrations of one model, from other processes, machines or days.

    Args:
        calibrations: Calibrations, or paths of saved ones; also of runs that were cut short.
        output: Where to write the result; None writes nothing.

    Returns:
        What one run over all their samples would have given, whatever their order.

    Raises:
        CalibrationError: If there is none, one cannot be read, or they are of different models, settings or tensors.
        OutputError: If the result cannot be written.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> images = load_images().calibration
        >>> halves = [quarkfast.calibrate(MODEL, part) for part in (images[:128], images[128:])]
        >>> quarkfast.merge_calibrations(halves) == quarkfast.calibrate(MODEL, images)
        True
    """
    from quarkfast.statistics import merge

    merged = merge(open_calibration(each) for each in calibrations)
    if output is not None:
        merged.save(output)
    return merged


def open_calibration(calibration: Calibration | str | os.PathLike[str]) -> Calibration:
    """Returns a calibration, read from disk where a path is given.

    Raises:
        CalibrationError: If it cannot be read.
        TypeError: If it is neither.
    """
    from quarkfast.statistics import Calibration

    if isinstance(calibration, Calibration):
        return calibration
    if isinstance(calibration, str | os.PathLike):
        return Calibration.load(calibration)
    raise TypeError(f"calibration: expected a Calibration or a path, got {type(calibration).__name__}")


def calibration_key(model: ir.Model, scheme: Scheme) -> str:
    """Returns a hash of what decides the values of activations: the model, and options that rewrite it in floats."""
    from quarkfast.graph.fingerprint import fingerprint

    settings = {"factors": scheme.factors} | {
        field.name: getattr(scheme, field.name)
        for field in dataclasses.fields(scheme)
        if field.name not in _NEUTRAL and getattr(scheme, field.name) != field.default
    }
    text = fingerprint(model) + json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _integer_presets() -> list[str]:
    from quarkfast.quantization import needs_ranges

    return [name for name, scheme in PRESETS.items() if needs_ranges(scheme)]


def _observed(model: ir.Model, schemes: Sequence[tuple[Scheme, Target]]) -> list[str]:
    """Returns the tensors that any of `schemes` needs to know, in the model's order."""
    from quarkfast.errors import ModelError
    from quarkfast.quantization import observed_tensors

    tensors = observed_tensors(model, schemes)
    if not tensors:
        raise ModelError("calibrate: expected a model with a tensor to quantize, got none")
    return tensors


def _channels(model: ir.Model, schemes: Sequence[tuple[Scheme, Target]], whatever: bool) -> dict[str, int]:
    """Returns the tensors whose channels any of `schemes` needs to know, and the axis of the channels of each."""
    from quarkfast.quantization import is_portable, observed_channels, place

    found: dict[str, int] = {}
    for scheme, target in schemes:
        if is_portable(scheme, target):
            found |= observed_channels(model, place(model, scheme, target), scheme, target, whatever)
    return found


def _warn_of_bodies(model: ir.Model, found: Calibration) -> None:
    """Names the bodies of If, Loop and Scan that no sample ran."""
    from quarkfast.graph.subgraphs import graphs_by_path, values_by_path

    counts = {name: each.range.count for name, each in found.tensors.items()}
    owners = {name: graph for name, (_, graph) in values_by_path(model).items() if name in counts}
    for path, graph in graphs_by_path(model.graph):
        seen = [counts[name] for name, owner in owners.items() if owner is graph]
        if path and seen and not any(seen):
            node, body = path[:-1].rsplit(":", 1)
            warnings.warn(
                f"calibrate: expected every body to run, got no sample that runs {body} of {node!r}; "
                f"its {len(seen)} tensors have no range",
                stacklevel=3,
            )
