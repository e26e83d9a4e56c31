"""One quantization from a loaded model to a summary, by whichever recipe."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

from quarkfast.atomic_files import save_bytes
from quarkfast.calibration.data import CalibrationData
from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.evaluate.processor import speed_here
from quarkfast.graph.access import name_of
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_bytes, external_files, load_model, model_bytes
from quarkfast.graph.notes import notes_of
from quarkfast.graph.operators import OPERATORS
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.graph.unchanged import copy_unchanged
from quarkfast.graph.written_codes import quantized_before
from quarkfast.pipeline.cache import Cache
from quarkfast.pipeline.calibration_source import CalibrationSource, calibration_key
from quarkfast.pipeline.context import Context, Uncorrected, WrittenModel
from quarkfast.pipeline.metadata import quantized_by
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.recipe_runner import run_recipe
from quarkfast.pipeline.recipes import lowest_opset_of, recipe_of
from quarkfast.pipeline.summary import FloatNode, Summary
from quarkfast.quantization.weight_precision import USUAL, Effort
from quarkfast.statistics import Calibration
from quarkfast.targets import Target
from quarkfast.wording import counted

__all__ = ["quantize_model"]

_WEIGHTS_ONLY_UNCHANGED = "quantize: the model has no weight that can be stored so; all of them stay"
_UNCHANGED = "quantize: nothing in the model can be quantized; the result is an unchanged copy"
_QUANTIZED = (
    "quantize: expected a float model, got one with {layers} quantized before{by} and none in float; the result is an "
    "unchanged copy: quantize the float model, or what quarkfast convert remove-qdq makes of this one"
)
_BODIES = (
    "; its layers lie in bodies of If, Loop or Scan, which stay float: where an input decides an If (sr of a voice "
    "activity detector), give it a value: quarkfast convert fixed-inputs MODEL FIXED --input NAME=NUMBERS"
)


def quantize_model(
    model: ModelSource,
    path: Path | None,
    scheme: Scheme,
    target: Target,
    calibration_data: CalibrationData | None,
    calibration: Calibration | str | os.PathLike[str] | None,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
    effort: Effort = USUAL,
    cache: Cache | None = None,
    *,
    uncorrected: Uncorrected | None = None,
) -> tuple[bytes, Summary]:
    """Runs the recipe of `scheme` over `model`, and returns the bytes of the ONNX file and the summary.

    Args:
        model: As :func:`quarkfast.quantize` takes it; it is not changed.
        path: Where to write the result, checked, or None.
        scheme: What is asked for.
        target: What it is placed for.
        calibration_data: Samples, or None.
        calibration: Statistics of samples, or None.
        max_memory: Most memory to hold while calibrating.
        clock: Measures the stages.
        histograms: Whether a histogram of each activation is gathered also where no method reads it.
        effort: How far weights are improved by other forms than the scheme's own.
        cache: What others of the same model on the same samples have found out, and what this one adds.
        uncorrected: Takes the model as it is without output bias correction, where outputs are poor and that is added;
            None adds none.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    with clock.stage("load"):
        loaded = load_model(model)
        before, outside = model_bytes(model, loaded), external_bytes(loaded) > 0
        if path is not None:
            check_not_a_source(path, model, external_files(loaded))
    if scheme.weights_only and scheme.rounding == "nearest":
        source = CalibrationSource(calibration_data, None, max_memory)
    else:
        source = CalibrationSource(calibration_data, calibration, max_memory)
    if source.calibration is not None and scheme.rounding != "nearest":
        raise ConfigError(
            "rounding: expected calibration_data to run layers on, got a calibration; pass the samples instead"
        )
    if scheme.weights_only and scheme.rounding != "nearest" and not source.has_data:
        raise ConfigError(
            f"rounding: expected calibration_data to run layers on with {scheme.rounding}, got none; pass samples"
        )
    effort = Effort.of(scheme.policy) if effort == USUAL else effort
    if source.is_table and scheme.equalize:  # of another tool, which tells of the model as it is
        scheme = replace(scheme, equalize=False)
    key = calibration_key(loaded, scheme) if source.calibration is not None else ""
    context = Context(
        model=loaded,
        opset=lowest_opset_of(scheme, target, loaded),
        scheme=scheme,
        conversions=target.conversions,
        target=target,
        source=source,
        clock=clock,
        float_model=model,
        key=key,
        path=path,
        two_files=outside,
        histograms=histograms,
        effort=effort,
        cache=cache,
        uncorrected=uncorrected,
    )
    del loaded  # preparation puts another in its place
    with context.resources:
        run_recipe(recipe_of(scheme), context)
        if context.unchanged:
            warnings.warn(_why_unchanged(context), stacklevel=3)
            _copy_unchanged(context)
    assert context.written is not None
    return context.written.data, _summarize(context, before)


def _why_unchanged(context: Context) -> str:
    before = quantized_before(context.model.graph)
    if before.whole:
        tool = quantized_by(context.model, nodes_of(context.model.graph))
        by = "" if tool is None else f" by {tool}"
        return _QUANTIZED.format(layers=counted(len(before.layers), "layer"), by=by)
    if context.scheme.weights_only:
        return _WEIGHTS_ONLY_UNCHANGED
    inner = {name_of(node) for body in graphs_of(context.model)[1:] for node in body}
    layers = any(left.op_type in OPERATORS and left.node in inner for left in context.nodes.left_float)
    return _UNCHANGED + (_BODIES if layers else "")


def _copy_unchanged(context: Context) -> None:
    """Makes the model as it was given the result, and writes it."""
    if not context.scheme.weights_only and not context.placement.before:
        context.preflight = context.target.preflight(context.model, context.placement, context.scheme)
    with context.clock.stage("save"):
        copy = copy_unchanged(context.float_model, context.path)
        if copy.size is None and context.path is not None:
            save_bytes(copy.data, context.path)
    context.written = WrittenModel(copy.data, copy.size, copy.opset)


def _summarize(context: Context, before: int) -> Summary:
    scheme, nodes, found, written = context.scheme, context.nodes, context.quantizers, context.written
    assert written is not None
    row = scheme.activation.format
    before_it = () if scheme.weights_only else context.placement.before
    weights = len(found.constants) if found else 0
    if scheme.weights_only:
        as_asked = scheme.weight.format.is_integer
        weights = sum(each.slot.has_codes == as_asked for each in context.weight_plan.weights)
    return Summary(
        preset=scheme.name,
        target=scheme.target,
        activation=scheme.activation.dtype,
        weight=scheme.weight.dtype,
        quantized=dict(Counter(kind for name, kind in nodes.quantized.items() if name not in before_it)),
        left_float=tuple(FloatNode(left.node, left.op_type, left.reason) for left in nodes.left_float),
        pairs=len(found.activations) if found else 0,
        weights=weights,
        biases=len(found.biases) if found else 0,
        samples=context.samples,
        opset=written.opset,
        bytes_before=before,
        bytes_after=len(written.data) if written.size is None else written.size,
        seconds=dict(context.clock.seconds),
        notes=() if context.unchanged else (*notes_of(context.model), *context.notes),
        constant=context.diagnostics.constant,
        saturated=context.diagnostics.saturated,
        worst=context.diagnostics.worst,
        outputs=context.outputs,
        preflight=context.preflight,
        reductions=found.reductions if found else (),
        records=context.records,
        opset_before=context.opset_before,
        speed=speed_here() if context.target.cpu_kernels and row.is_integer and row.bits <= 8 else "",
    )
