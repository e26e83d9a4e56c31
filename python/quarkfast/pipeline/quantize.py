"""The pipeline in reading order: load, prepare, place, calibrate, freeze, refine, insert, save."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarkfast.config import Scheme
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.pipeline.calibrate import calibration_key, open_calibration
from quarkfast.pipeline.calibration_source import Source, find_ranges, smooth_channels
from quarkfast.pipeline.garbage import only_new_objects_collected
from quarkfast.pipeline.metadata import sign
from quarkfast.pipeline.plan import outline
from quarkfast.pipeline.progress import Clock, Progress
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.summary import FloatNode, Summary
from quarkfast.pipeline.weight_only import store_weights

if TYPE_CHECKING:
    import onnx

    from quarkfast.calibration.data import CalibrationData, Feed
    from quarkfast.deferred import ir
    from quarkfast.graph.load import ModelSource
    from quarkfast.graph.placement import Placement
    from quarkfast.graph.plan import Plan
    from quarkfast.quantization import Findings
    from quarkfast.statistics import Calibration
    from quarkfast.targets import Target

__all__ = ["QuantizedModel", "quantize"]

# Noise of a quarter of the signal's amplitude, 20 log10(4) dB below it.
_POOR = 12.0
_REMEDY = "leave layers float (exclude), or give activations more bits (activation_type)"


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """A quantized model and the report about it.

    Attributes:
        model_bytes: The serialized ONNX model, exactly what a file would hold.
        summary: What was done.
        path: The file that was written, or None.
    """

    model_bytes: bytes
    summary: Summary
    path: Path | None = None

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as a protobuf, made anew for each call."""
        import onnx

        proto = onnx.ModelProto()
        proto.ParseFromString(self.model_bytes)
        return proto

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the model to `path`, whole or not at all, and returns the path.

        Raises:
            ModelError: If the folder does not exist or the file cannot be written.
        """
        from quarkfast.atomic_files import check_output, save_bytes

        output = check_output(path)
        save_bytes(self.model_bytes, output)
        return output


def quantize(
    model: ModelSource,
    output: str | os.PathLike[str] | None = None,
    preset: str | Scheme = "A8W8",
    calibration_data: CalibrationData | None = None,
    *,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> QuantizedModel:
    """Quantizes an ONNX model.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        output: Where to write the result. None writes nothing. May be the input's path.
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a :class:`quarkfast.Scheme`.
        calibration_data: Samples, needed by presets whose activations have scales: an .npz or .npy file, an array or a
            dict of arrays (first axis: samples), a folder of files or images, an iterable of feeds, a reader with
            ``get_next``, or ``"random"``; see ``docs/calibration.md``. DYNAMIC can do without, and is better with them.
        calibration: What :func:`quarkfast.calibrate` returned or wrote for this model, instead of samples; or the path
            of a table of ONNX Runtime or Quark. The model is not run.
        max_memory: Most memory that the process may hold while it calibrates, in bytes or as text such as ``"2GB"``.
        progress: Called as stages begin and samples are read: stage, samples done, samples in all or None.
        **options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys for them, such as ``per_channel=True``; ``target``
            is the name of a row of :data:`quarkfast.TARGETS`, or a :class:`quarkfast.Target` of one's own.

    Returns:
        The model and its summary, whether or not it was written. The same arguments give the same bytes.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read or the result cannot be written. Nothing is left behind.
        CalibrationError: If the data is missing, empty or does not fit the model's inputs, or the calibration is of
            another model.
        UnsupportedError: If this version, onnx or onnxruntime cannot do it.

    Warns:
        UserWarning: If nothing in the model can be quantized; the result is an unchanged copy.

    Example:
        >>> import numpy as np, onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> result = quarkfast.quantize(proto, calibration_data=np.ones((8, 4), np.float32))
        >>> [node.op_type for node in result.proto.graph.node][:2]
        ['QuantizeLinear', 'DequantizeLinear']
    """
    scheme, target = resolve(preset, options)
    clock = Clock(progress)
    if scheme.weights_only:
        data, summary, path = store_weights(model, output, scheme, clock)
        return QuantizedModel(data, summary, path)
    with clock.stage("import"):
        from quarkfast.atomic_files import check_output, save_bytes
        from quarkfast.graph.external import check_not_a_source
        from quarkfast.graph.external_constants import constants_in_files
        from quarkfast.graph.load import external_files, load_model, model_bytes
        from quarkfast.pipeline.prepare import prepare
        from quarkfast.quantization import needs_ranges, place
        from quarkfast.writers import lowest_opset
    with only_new_objects_collected():
        path = None if output is None else check_output(output)
        with clock.stage("load"):
            loaded = load_model(model)
            if path is not None:
                check_not_a_source(path, model, external_files(loaded))
        before = model_bytes(model, loaded)
        if calibration is not None and scheme.equalize:
            calibration = open_calibration(calibration)
            if calibration.key is None:  # a table of another tool, which tells of the model as it is
                scheme = replace(scheme, equalize=False)
        key = calibration_key(loaded, scheme) if calibration is not None else ""
        source = Source(calibration_data, calibration, max_memory, key)
        with contextlib.ExitStack() as stack:
            with clock.stage("prepare"):
                prepared = prepare(loaded, lowest_opset(scheme, target), factors=scheme.factors)
                placement = place(prepared, scheme, target)
                del loaded  # what preparation has replaced
                if calibration is None and (needs_ranges(scheme) or (scheme.smoothed and calibration_data is not None)):
                    stack.enter_context(constants_in_files(prepared, None if path is None else path.parent))
            if placement.quantized:
                if scheme.smoothed:
                    source = smooth_channels(prepared, placement, scheme, source, clock)
                written = _write(prepared, placement, scheme, target, source, clock, path)
            else:
                written = _unchanged(model, placement, path)
                written = replace(written, preflight=target.preflight(prepared, placement, scheme))
        if written.first is not None:
            with clock.stage("check"):
                written = _check(model, written, written.first)
        if path is not None and written.size is None:
            with clock.stage("save"):
                save_bytes(written.data, path)
        summary = _summarize(prepared, written, scheme, before, clock.seconds)
        return QuantizedModel(written.data, summary, path)


@dataclass(frozen=True, slots=True)
class _Written:
    """The bytes of a quantized model, and how it came to be; without a plan where nothing was quantized."""

    data: bytes
    placement: Placement
    size: int | None = None  # bytes of both files, where it took two and they are on the disk already
    plan: Plan | None = None
    findings: Findings | None = None
    samples: int = 0
    preflight: tuple[str, ...] = ()
    opset: int | None = None  # where it is not that of the prepared model
    first: Feed | None = None  # the first sample, where the outputs on it can be looked at
    outputs: tuple[tuple[str, float], ...] = ()


def _write(
    model: ir.Model,
    placement: Placement,
    scheme: Scheme,
    target: Target,
    source: Source,
    clock: Clock,
    path: Path | None,
) -> _Written:
    """Decides every number and writes it into the model; to the disk as well if that takes two files.

    It takes two where the result is too large for one protobuf, or the float model was: one would be in memory thrice.
    """
    from quarkfast.graph.external import needs_data_file, write_model
    from quarkfast.graph.notes import notes_of
    from quarkfast.graph.save import serialize
    from quarkfast.graph.unchanged import NO_OUTPUT
    from quarkfast.quantization import find_findings, freeze, is_portable, resolve_conflicts, saturation_note
    from quarkfast.writers import insert

    large = needs_data_file(model)
    ranges, statistics, samples, source = find_ranges(model, placement, scheme, target, source, clock)
    seen = {name: each.range for name, each in statistics.items()}
    reaches = {name: each.channel_absmax for name, each in statistics.items() if each.channel_absmax is not None}
    shown = source.reaches or {name: (*astuple(each), *reaches.get(name, ())) for name, each in seen.items()}
    with clock.stage("insert"):
        placement, conflicts = resolve_conflicts(model, placement, ranges)
        plan = target.refine(model, freeze(model, placement, scheme, target, ranges, seen, reaches))
        findings, warned = find_findings(model, plan, statistics), target.preflight(model, placement, scheme)
        first, unmeasured = (None, ()) if large else source.sample_to_measure(model)
        notes = (*unmeasured, *saturation_note(model, placement, scheme, target, plan))
        notes += insert(model, plan, scheme, target)
        plan = replace(plan, notes=(*notes_of(model), *source.notes, *conflicts, *plan.notes, *notes))
        sign(model, outline(placement, scheme), shown, plan.reductions if is_portable(scheme, target) else None)
        if not needs_data_file(model) and (path is None or not large):
            return _Written(
                serialize(model), placement, None, plan, findings, samples or source.samples, warned, first=first
            )
    if path is None:
        raise UnsupportedError(NO_OUTPUT)
    with clock.stage("save"):
        data, size = write_model(model, path, external=True)
    return _Written(data, placement, size, plan, findings, samples or source.samples, warned)


def _check(model: ModelSource, written: _Written, feed: Feed) -> _Written:
    """Looks at the outputs on one sample, and says which are poor, or why nobody knows."""
    from quarkfast.evaluate.first_sample import output_sqnr
    from quarkfast.graph.load import load_model
    from quarkfast.graph.save import serialize

    reference = Path(model) if isinstance(model, str | os.PathLike) else serialize(load_model(model))
    notes: tuple[str, ...] = ()
    try:
        outputs = output_sqnr(reference, written.data, feed)
    except ModelError as error:
        outputs, notes = (), (f"the outputs on the first sample are not known: {error}",)
    poor = ", ".join(f"{name!r} {value:.1f} dB" for name, value in outputs if value < _POOR)
    if poor:
        notes = (f"poor outputs on the first sample, with exact sums: {poor}; {_REMEDY}",)
    plan = written.plan
    return replace(written, outputs=outputs, plan=plan and replace(plan, notes=(*plan.notes, *notes)))


def _unchanged(model: ModelSource, placement: Placement, path: Path | None) -> _Written:
    """Returns the model as it came, after saying so; on the disk as well if that takes two files."""
    from quarkfast.graph.unchanged import copy_unchanged

    warnings.warn("quantize: nothing in the model can be quantized; the result is an unchanged copy", stacklevel=3)
    copy = copy_unchanged(model, path)
    return _Written(copy.data, placement, copy.size, opset=copy.opset)


def _summarize(
    model: ir.Model, written: _Written, scheme: Scheme, before: int, seconds: Mapping[str, float]
) -> Summary:
    from quarkfast.graph.opset import opset_version
    from quarkfast.quantization import Findings

    placement, plan, findings = written.placement, written.plan, written.findings or Findings()
    return Summary(
        preset=scheme.name,
        target=scheme.target,
        activation=scheme.activation.dtype,
        weight=scheme.weight.dtype,
        quantized=dict(Counter(placement.quantized.values())),
        left_float=tuple(FloatNode(left.node, left.op_type, left.reason) for left in placement.left_float),
        pairs=len(plan.activations) if plan else 0,
        weights=len(plan.constants) if plan else 0,
        biases=len(plan.biases) if plan else 0,
        samples=written.samples,
        opset=opset_version(model) if written.opset is None else written.opset,
        bytes_before=before,
        bytes_after=len(written.data) if written.size is None else written.size,
        seconds=dict(seconds),
        notes=plan.notes if plan else (),
        constant=findings.constant,
        saturated=findings.saturated,
        worst=findings.worst,
        outputs=written.outputs,
        preflight=written.preflight,
        reductions=plan.reductions if plan else (),
    )
