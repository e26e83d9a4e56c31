"""Calibration by itself: a model and samples in, statistics out, for any number of quantizations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from quarkfast.atomic_files import check_output
from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.pipeline.progress import Clock, Progress
from quarkfast.pipeline.resolve import resolve
from quarkfast.statistics import Calibration, merge, open_calibration

if TYPE_CHECKING:
    from quarkfast.calibration.data import CalibrationData
    from quarkfast.graph.load import ModelSource

__all__ = ["calibrate", "merge_calibrations"]


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
    """Gathers statistics of every tensor that a preset may quantize, or smooth.

    1. Presets whose activations have scales (A8W8, A16W8, U8S8, XINT8) need the range of each tensor, and all methods
       but the extremes its histogram.
    2. U8S8 also needs the largest magnitude in each channel of what layers multiply.
    3. DYNAMIC needs these of what matrix products multiply, and nothing else.
    4. No preset gathers what all of these need.

    Bodies of If, Loop and Scan are looked into as well, and models in float16 and bfloat16 as they are. A tensor of a
    body is called ``"node:attribute:tensor"``.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        calibration_data: As for :func:`quarkfast.quantize`.
        output: Where to write the result: a JSON file, with an .npz file of the same name beside it. What was gathered
            is kept there if the run is interrupted or fails. None writes nothing.
        preset: Whose statistics to gather; None means those of every preset that needs any.
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
    named = None if preset is None else resolve(preset, options)
    if named is not None and named[0].weights_only:
        raise ConfigError(f"calibrate: expected a preset that quantizes activations, got {named[0].name}")
    clock = Clock(progress)
    with clock.stage("import"):  # onnx, onnx_ir and all that needs them, after mistakes in arguments are found
        from quarkfast.pipeline.calibrate_model import calibrate_model, presets_with_statistics
    schemes = [resolve(name, options) for name in presets_with_statistics()] if named is None else [named]
    return calibrate_model(
        model,
        calibration_data,
        None if output is None else check_output(output),
        schemes,
        clock,
        every_layer=preset is None,
        histogram=histogram,
        moments=moments,
        executor=executor,
        threads=threads,
        max_memory=max_memory,
        resume=resume,
    )


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
    merged = merge(open_calibration(each) for each in calibrations)
    if output is not None:
        merged.save(output)
    return merged
