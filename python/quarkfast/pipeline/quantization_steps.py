"""Steps from a prepared float model to a quantized one."""

from __future__ import annotations

import os
from dataclasses import astuple, replace
from pathlib import Path

from quarkfast.algorithms import smoothable_axes
from quarkfast.atomic_files import save_bytes
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.evaluate.first_sample import check_default_session, output_sqnr
from quarkfast.graph.access import is_tensor, name_of
from quarkfast.graph.external import needs_data_file, write_model
from quarkfast.graph.external_constants import constants_in_files
from quarkfast.graph.load import load_model
from quarkfast.graph.notes import equalized_of
from quarkfast.graph.operators import RANKING
from quarkfast.graph.opset import opset_version
from quarkfast.graph.save import serialize
from quarkfast.graph.unchanged import NO_OUTPUT
from quarkfast.pipeline.context import Context, WrittenModel
from quarkfast.pipeline.metadata import write_changes, write_equalized, write_metadata
from quarkfast.pipeline.method_ranges import method_ranges
from quarkfast.pipeline.model_plan import describe
from quarkfast.pipeline.replan import few_valued_of, functions_of, quantizers_for, take_placement
from quarkfast.quantization import (
    diagnose,
    is_portable,
    make_plan,
    needs_ranges,
    observed_channels,
    place,
    record_plan,
    resolve_conflicts,
    saturation_note,
)
from quarkfast.ranges.estimate import needs_histogram
from quarkfast.statistics import StatisticsRequest, TensorStatistics
from quarkfast.targets.conversions import simulate
from quarkfast.transforms.half_precision import narrow_half
from quarkfast.transforms.infer_types import open_outputs
from quarkfast.transforms.pairs import remove_pairs
from quarkfast.wording import counted, first_names
from quarkfast.writers import insert

__all__ = [
    "check_for_target",
    "choose_ranges",
    "compute_scales",
    "insert_plan",
    "keep_constants_in_files",
    "measure_outputs",
    "measures_outputs",
    "narrow_to_half",
    "place_pairs",
    "plan_codes",
    "request_channels",
    "request_ranges",
    "round_constants_alone",
    "rounds_constants_alone",
    "runs_model",
    "serialize_model",
    "smooths_channels",
    "take_channel_maxima",
    "takes_ranges",
    "write_files",
    "writes_files",
]

_FLOAT_LAYERS = "leave layers float (exclude)"
_MORE_BITS = "give activations more bits (activation_type)"
_BETTER_CODES = ("choose codes of weights by what layers compute (rounding='descent')", "name a target (min_sqnr=20)")
_UNRANKED = (
    "outputs behind a ranking (TopK, NonMaxSuppression) are judged in front of it: behind it rows change places with "
    "the least rounding"
)


def place_pairs(context: Context) -> bool:
    """Decides which tensors are quantized. Where none is, the recipe ends."""
    context.placement = place(context.model, context.scheme, context.target)
    context.unchanged = not context.placement.quantized
    if before := context.placement.before:
        layers = f"{counted(len(before), 'layer')} ({first_names(before)})"
        context.notes.append(f"{layers} quantized before, which keep their types; the rest is what this preset made")
    if context.placement.idle:
        names = ", ".join(map(repr, context.placement.idle))
        context.notes.append(
            f"tensors: expected quantized tensors, got {names}, which stay float; their entries change nothing"
        )
    context.two_files = needs_data_file(context.model)
    return False


def runs_model(context: Context) -> bool:
    """Whether the scheme may want samples to be run."""
    return takes_ranges(context) or smooths_channels(context)


def keep_constants_in_files(context: Context) -> bool:
    """Moves large constants to a file before the model runs on samples, so that they are in memory once."""
    runs = context.source.calibration is None and (takes_ranges(context) or context.source.has_data)
    if runs:
        context.resources.enter_context(constants_in_files(context.model, context.path))
    return runs


def smooths_channels(context: Context) -> bool:
    """Whether channels that stand out are made smaller."""
    return context.scheme.smoothed


def take_channel_maxima(context: Context) -> bool:
    """Takes what samples show of channels, for the algorithms that make outlier channels smaller."""
    found = context.calibration
    if found is None:
        return False
    axes = smoothable_axes(context.model, context.placement.quantized)
    maxima = found.channel_maxima(axes, context.key)
    ranges = {name: found.tensors[name].range for name in axes}
    # One infinity or NaN may lie in any channel, so nothing is known of such a tensor.
    context.channel_maxima = {name: each for name, each in maxima.items() if ranges[name].finite == ranges[name].count}
    context.fingerprints = {name: each.tolist() for name, each in maxima.items()}
    context.samples = found.samples
    return False


def takes_ranges(context: Context) -> bool:
    """Whether activations have scales, so that their ranges must be known."""
    return needs_ranges(context.scheme)


def request_ranges(context: Context) -> StatisticsRequest:
    """Asks for the range of each activation that gets a scale, and its histogram where a method or a fit reads one."""
    request = StatisticsRequest.of(context.placement.observed, histogram=_reads_histograms(context))
    return request | StatisticsRequest.of((*functions_of(context), *few_valued_of(context)), histogram=True)


def request_channels(context: Context) -> StatisticsRequest:
    """Asks for the channels of what layers multiply whose sums may leave 16 bits."""
    if not takes_ranges(context) or not context.placement.observed:
        return StatisticsRequest()
    axes = observed_channels(context.model, context.placement, context.scheme, context.target)
    # The histograms go to what is said of expected noise.
    request = StatisticsRequest.of(axes, histogram=_reads_histograms(context))
    return request | StatisticsRequest.of_channels(axes)


def _reads_histograms(context: Context) -> bool:
    return context.histograms or any(
        needs_histogram(context.placement.specs[name]) for name in context.placement.observed
    )


def choose_ranges(context: Context) -> bool:
    """Chooses the range to keep of each activation, by the method of its spec and what reads it."""
    found, observed = context.calibration, context.placement.observed
    if found is None:
        return False
    if found.random:
        context.model.metadata_props["quarkfast.calibration"] = "random data: the ranges of activations mean nothing"
    # A calibration for every preset knows of more channels than this one asks for.
    selected = found.select(observed, context.key).items()
    statistics = {name: replace(each, channel_absmax=None) for name, each in selected}
    axes = [name for name, each in context.request.tensors.items() if each.channel_axis is not None]
    statistics |= {name: found.tensors[name] for name in axes if name in found.tensors}
    if found.key is None:  # a table of another tool, whose method has chosen the ranges already
        context.ranges = {name: each.range for name, each in statistics.items()}
    else:
        samples = 0 if found.random else found.samples
        chosen = method_ranges(context, statistics, context.placement.specs, samples)
        context.ranges, context.cut, context.wider, context.range_notes = chosen
        context.notes += context.range_notes
    context.statistics, context.samples = statistics, found.samples
    context.fingerprints = {name: _fingerprint(each) for name, each in statistics.items()}
    return False


def _fingerprint(statistics: TensorStatistics) -> tuple[float, ...]:
    channels = statistics.channel_absmax
    return (*astuple(statistics.range), *(() if channels is None else channels))


def compute_scales(context: Context) -> bool:
    """Resolves conflicts of scales, computes scales and zero points, and brings them to what the target allows."""
    placement, conflicts = resolve_conflicts(context.model, context.placement, context.ranges, context.scheme.policy)
    take_placement(context, placement)
    context.quantizers = quantizers_for(context, context.ranges)
    context.notes += [*conflicts, *context.quantizers.notes]
    return False


def plan_codes(context: Context) -> bool:
    """Plans the codes of every constant, and finds what is noteworthy about tensors."""
    assert context.quantizers is not None
    context.plan = make_plan(context.model, context.placement, context.quantizers, context.scheme)
    context.diagnostics = diagnose(context.plan, context.statistics, context.cut)
    return False


def check_for_target(context: Context) -> bool:
    """Finds what keeps the target from running the model, and what a default session loses."""
    model, scheme = context.model, context.scheme
    context.preflight = context.target.preflight(model, context.placement, scheme)
    if not context.two_files:
        context.first_sample, unmeasured = context.source.sample_to_measure(model, scheme)
        context.notes += unmeasured
    assert context.plan is not None
    context.notes += saturation_note(model, context.placement, scheme, context.target, context.plan)
    return False


def insert_plan(context: Context) -> bool:
    """Writes the plan into the model, and into its metadata what made it."""
    assert context.plan is not None
    assert context.quantizers is not None
    context.records = record_plan(context.model, context.plan, context.statistics, context.diagnostics.sqnr)
    context.notes += simulate(context.model, context.placement.quantized, context.target.simulations)
    for bias in context.plan.moved.values():
        bias.store(context.model)
    context.notes += insert(context.model, context.plan, context.scheme, context.target)
    context.plan = None  # which holds the float weights
    description = describe(context.placement, context.scheme)
    reductions = context.quantizers.reductions if is_portable(context.scheme, context.target) else None
    write_metadata(context.model, description, context.fingerprints, reductions)
    if context.shifted is not None:
        write_changes(context.model, "offsets", context.shifted.offsets)
    if context.factors:
        write_changes(context.model, "factors", context.factors)
    equalized = [name for name in equalized_of(context.model) if name in context.placement.activations]
    if equalized:
        write_equalized(context.model, equalized)
    return True


def rounds_constants_alone(context: Context) -> bool:
    """Whether activations are rounded at inputs alone."""
    return context.scheme.vaiml


def round_constants_alone(context: Context) -> bool:
    """Makes narrow constants float32, and takes Casts away but those behind inputs."""
    return remove_pairs(context.model, keep_inputs=True)


def narrow_to_half(context: Context) -> bool:
    """Has what was widened to be quantized compute in float16 again."""
    return narrow_half(context.model)


def serialize_model(context: Context) -> bool:
    """Makes the bytes of the result, unless it takes two files.

    It does where it is too large for one protobuf, or the float model was: one would be in memory thrice.
    """
    context.calibration, context.statistics, context.ranges = None, {}, {}
    open_outputs(context.model)
    if not needs_data_file(context.model) and (context.path is None or not context.two_files):
        context.written = WrittenModel(serialize(context.model), None, opset_version(context.model))
        return False
    if context.path is None:
        raise UnsupportedError(NO_OUTPUT)
    context.first_sample, context.two_files = None, True
    return False


def measures_outputs(context: Context) -> bool:
    """Whether there is a sample on which outputs can be looked at."""
    return context.first_sample is not None


def measure_outputs(context: Context) -> bool:
    """Looks at the outputs on one sample, says which are poor, or why nobody knows, and opens the result by default.

    To open it takes 0.15 s of processor time for a text detector, whose quantization by one sample takes 2.4.
    """
    model, written = context.float_model, context.written
    assert written is not None
    assert context.first_sample is not None
    reference = Path(model) if isinstance(model, str | os.PathLike) else serialize(load_model(model))
    try:
        ranks = any(node.op_type in RANKING for node in context.model.graph)
        context.outputs = output_sqnr(reference, written.data, context.first_sample, unranked=ranks)
    except ModelError as error:
        context.notes.append(f"the outputs on the first sample are not known: {error}")
    if cause := check_default_session(reference, written.data):
        context.notes.append(f"default sessions of onnxruntime open neither the float model nor the result: {cause}")
    several = ", ".join(repr(name_of(value)) for value in context.model.graph.outputs if not is_tensor(value))
    if several:
        context.notes.append(f"outputs that are no single tensor are not measured: {several}")
    shown = {value.name for value in context.model.graph.outputs}
    if any(name not in shown for name, _ in context.outputs):
        context.notes.append(_UNRANKED)
    least = context.scheme.policy.poor_sqnr
    poor = ", ".join(f"{name!r} {value:.1f} dB" for name, value in context.outputs if value < least)
    if poor:
        context.notes.append(f"poor outputs on the first sample, with exact sums: {poor}; {_remedies(context)}")
    return False


def _remedies(context: Context) -> str:
    """Returns in words what brings outputs nearer, of what the preset takes and was not asked for."""
    scheme, dynamic = context.scheme, context.scheme.encoding == "dynamic"
    codes = (dynamic or takes_ranges(context)) and scheme.weight.format.is_integer
    chosen = (codes or scheme.activation.is_block) and scheme.rounding == "nearest"
    found = [*_BETTER_CODES] if chosen else list[str]()
    found += [_FLOAT_LAYERS] if dynamic else [_FLOAT_LAYERS, _MORE_BITS]
    return ", ".join([*found[:-1], f"or {found[-1]}" if len(found) > 1 else found[-1]])


def writes_files(context: Context) -> bool:
    """Whether the result goes to the disk."""
    return context.path is not None


def write_files(context: Context) -> bool:
    """Writes the result, whole or not at all."""
    assert context.path is not None
    if context.written is None:
        data, size = write_model(context.model, context.path, external=True)
        context.written = WrittenModel(data, size, opset_version(context.model))
    else:
        save_bytes(context.written.data, context.path)
    return False
