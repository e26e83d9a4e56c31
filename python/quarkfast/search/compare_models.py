"""Every quantized tensor of a model beside its float original, in one pass over the samples."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.calibration.data import CalibrationData, Samples, model_inputs, open_data
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.calibration.memory import LIVE_BYTES, live_bytes, rows_within_budget, weight_bytes
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError
from quarkfast.evaluate.compared_weights import compare_weight
from quarkfast.evaluate.exact_sums import with_exact_products
from quarkfast.evaluate.tensor_comparison import (
    Comparison,
    TensorComparison,
    add_sums,
    total_of,
    worst_channels,
)
from quarkfast.graph.access import is_tensor, name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.comparisons import Asked, add_comparisons, put_beside, use_own_dequantizers
from quarkfast.graph.external_constants import constants_in_files, proto_and_folder
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.opset import convert_opset, opset_version
from quarkfast.graph.save import file_or_bytes
from quarkfast.graph.shape_inference import drop_stale_shapes
from quarkfast.graph.traced_pairs import TracedPair, traced_pairs
from quarkfast.graph.written_codes import Codes
from quarkfast.pipeline.metadata import read_changes, read_equalized
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.single_rows import keep_whole_samples
from quarkfast.ranges.decibels import decibels
from quarkfast.search.predict_gains import made_finer, predict_gains, quantized_anew
from quarkfast.transforms.clean import inline_functions, lift_constants
from quarkfast.transforms.infer_types import infer_types

__all__ = ["compare_models"]

_PREFIX = "quantized/"
# Samples on which gains are predicted: on 16 images roundings behind a change move the logits of ResNet-56 by 0.5 dB.
_PREDICTED = 64
# Share of values beyond the range from which on it was cut for 8 bits: fewer are what samples did not show.
_CUT = 1e-3
# A run dequantizes all weights, so activations may take a share of what these take: 8 sentences instead of 2.
_WEIGHTS = 4
# Numbers with which an operator leaves its other input as it is.
_NEUTRAL = {"Mul": 1.0, "Sub": 0.0}
# A difference of half a step may be a little more in float32.
_HALF = 0.5 + 2**-10

Progress = Callable[[str, int, int | None], None]


def compare_models(
    reference: ModelSource,
    model: ModelSource,
    data: CalibrationData,
    *,
    samples: int | None = None,
    batch_size: int | None = None,
    preprocess: str | Mapping[str, Any] | None = None,
    predict: int = 0,
    calibration_data: CalibrationData | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Runs a float model and a quantized one side by side and says what each tensor lost.

    Both are run as one model with exact sums, and native operators sum up the differences as the tensors are computed:
    no activation is kept, and memory stays that of inference.

    Args:
        reference: The float model: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        model: The quantized model, of any tool that writes QuantizeLinear and DequantizeLinear.
        data: Samples, of every kind that :func:`quarkfast.quantize` takes.
        samples: How many to read; all by default.
        batch_size: Rows of a run; chosen by memory where it is not given and the model leaves their number open.
        preprocess: How image files become inputs, as for :func:`quarkfast.quantize`.
        predict: Of how many of the worst tensors to say what the outputs would gain if they had 16 bits, on the first
            64 samples: the quantized model is run once more for each. Where activations have lost offsets, or are
            multiplied, weights are left out, unless there are `calibration_data`.
        calibration_data: What calibrated the quantized model, of which `predict` then quantizes the float model anew
            with int16 for the tensors, by the scheme in its metadata: the figures are those of that very model.
        progress: Called with ``"compare"``, the samples that are done, and how many there are, or None.

    Raises:
        ConfigError: If `calibration_data` come without `predict`, or with a model of another tool.
        ModelError: If a model cannot be read or run, or both have other inputs or operator sets.
        CalibrationError: If the data do not fit the model.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> images = {"image": load_images().calibration[:8]}
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "A8W8", images)
        >>> found = quarkfast.compare_models(MODEL, "digits.onnx", images)
        >>> found.tensors[0].tensor, found.tensors[0].dtype, found.tensors[-1].kind
        ('image', 'int8', 'output')
    """
    if calibration_data is not None and not predict:
        raise ConfigError("compare: expected predict beside calibration_data, got none; leave calibration_data out")
    with ExitStack() as files:
        loaded = _load(reference)
        inputs = model_inputs(loaded)
        # Constants of nodes would be copied with the graph: 86 MB for the 11 MB of a recognizer of PaddlePaddle.
        lift_constants(loaded)
        files.enter_context(constants_in_files(loaded))
        other = _load(model)
        anew = None if calibration_data is None else quantized_anew(reference, other, calibration_data)
        inline_functions(other)
        lift_constants(other)
        drop_stale_shapes(other)
        files.enter_context(constants_in_files(other))
        merged = prepare(loaded, opset_version(other))
        del loaded
        opened = open_data(data, inputs, samples, batch_size, preprocess)
        if batch_size is None:
            keep_whole_samples(opened, merged)
        other = convert_opset(other, opset_version(merged))
        infer_types(other)
        whole = (_tensors_of(merged), other.clone()) if predict else None
        tensors = _Tensors(merged, other)
        del other
        if batch_size is None and opened.resizable:
            budget = max(LIVE_BYTES, weight_bytes(merged) // _WEIGHTS)
            opened.resize(rows_within_budget(2 * live_bytes(merged, opened.row()), budget))
        feeds = opened.head(_PREDICTED) if predict else []
        files.enter_context(constants_in_files(merged))
        source, folder = _serialized(merged)
        del merged
        rows = tensors.run(_session(source, folder), opened, progress)
        found = Comparison(tuple(tensors.found()), rows, tuple(tensors.left))
        if whole is None:
            return found
        mend = anew or made_finer(
            whole[1], whole[0], {each.tensor for each in found.worst if (each.clipped or 0.0) > _CUT}
        )
        # Weights are multiplied, and biases have offsets times their rounded sums: finer ones would only spoil that.
        apt = [each for each in found.worst if not tensors.rewritten or anew is not None or each.kind == "activation"]
        worst = [each.tensor for each in apt[:predict]]
        return replace(found, prediction=predict_gains(load_model(reference), mend, worst, feeds))


def _load(model: ModelSource) -> ir.Model:
    """Loads a model whose constants get other names, which onnx-ir would write into those of an object."""
    source = file_or_bytes(model)
    return load_model(onnx.load_model_from_string(source) if isinstance(source, bytes) else source)


def _serialized(model: ir.Model) -> tuple[bytes, Path | None]:
    proto, folder = proto_and_folder(model)
    return with_exact_products(proto).SerializeToString(), folder


def _session(source: bytes, folder: Path | None) -> Any:
    """Opens a session after what the graphs took was given back."""
    gc.collect()  # nodes and their values refer to each other
    _core.release_memory()
    options = ort.session_options(optimize=False, spinning=False)
    options.enable_mem_pattern = False  # blocks for whole runs take 5 to 10 MB more, and save no time
    return ort.inference_session(source, options, folder=folder)


class _Rounded(NamedTuple):
    """What is kept of a pair: of its codes the type, how many steps they reach over, and the widest step."""

    tensor: str
    dtype: str
    levels: int
    step: float


class _Tensors:
    """What is compared, and its sums so far."""

    def __init__(self, merged: ir.Model, other: ir.Model) -> None:
        """Makes one model of both, in `merged`; keeps no part of it."""
        self._rounded: list[_Rounded] = []
        self.left: list[str] = []
        self._weights: dict[int, TensorComparison] = {}
        asked, offsets, factors = [], read_changes(other, "offsets"), read_changes(other, "factors")
        self.rewritten, equalized = bool(offsets or factors), read_equalized(other)
        for index, pair in enumerate(traced_pairs(other, _tensors_of(merged))):
            dtype, levels = "" if pair.codes.dtype is None else pair.codes.dtype.name.lower(), _levels(pair.codes)
            self._rounded.append(_Rounded(pair.tensor, dtype, levels, float(pair.codes.scale.max(initial=0))))
            if pair.exact is None:
                self._add_weight(index, pair)
                continue
            limit = _HALF * self._rounded[-1].step if levels else np.inf
            asked.append(Asked(index, True, pair.exact, pair.rounded, limit))
            if pair.original is None:
                self.left.append(f"{pair.tensor!r}: the float model has no tensor of that name")
            elif pair.tensor in equalized:
                self.left.append(f"{pair.tensor!r}: equalization has multiplied its channels")
            elif not _differ(pair.original, pair.rounded):
                original = _changed(merged, pair.original, "Mul", factors.get(pair.tensor, 1.0))
                original = _changed(merged, original, "Sub", offsets.get(pair.tensor, 0.0))
                asked.append(Asked(index, False, original, pair.rounded, np.inf))
            else:
                self.left.append(f"{pair.tensor!r}: of another shape in the float model")
        ends = {name_of(value): value for value in other.graph.outputs if _is_compared(value)}
        own = [value for value in merged.graph.outputs if _is_compared(value)]
        self._outputs = [name_of(value) for value in own]
        others = [name_of(value) for value in merged.graph.outputs if not _is_compared(value)]
        self.left += [f"{name!r}: an output that is no single tensor of numbers" for name in others]
        for name, (one, end) in _outputs(own, ends).items():
            asked.append(Asked(len(self._rounded) + self._outputs.index(name), False, one, end, np.inf))
        self._asked = [(each.tensor, each.rounding, name_of(each.reference)) for each in asked]
        put_beside(merged, other, _PREFIX)
        add_comparisons(merged, asked)
        use_own_dequantizers(merged)
        self._sums: list[NDArray[np.float64] | None] = [None] * len(asked)

    def _add_weight(self, index: int, pair: TracedPair) -> None:
        if pair.original is None or pair.original.const_value is None:
            self.left.append(f"{pair.tensor!r}: the float model has no such constant")
            return
        found = compare_weight(pair)
        if isinstance(found, str):
            self.left.append(found)
        else:
            self._weights[index] = found

    def run(self, session: Any, samples: Samples, progress: Progress | None) -> int:
        """Runs both models on all samples and returns their number."""
        done = 0
        for feed in samples:
            for slot, found in enumerate(ort.run(session, feed)):
                self._sums[slot] = add_sums(self._sums[slot], found)
            done += rows_of(feed)
            if progress is not None:
                progress("compare", done, samples.total)
        return done

    def found(self) -> Iterable[TensorComparison]:
        """Yields what each tensor lost."""
        rows: dict[tuple[int, bool], NDArray[np.float64]] = {}
        for (tensor, rounding, name), sums in zip(self._asked, self._sums, strict=True):
            if sums is not None and len(sums):
                rows[tensor, rounding] = sums
            else:
                self.left.append(f"{name!r}: of another shape in the quantized model")
        for index, rounded in enumerate(self._rounded):
            if index in self._weights:
                yield self._weights[index]
            elif (index, True) in rows:
                yield _activation(rounded, rows[index, True], rows.get((index, False)))
        for index, name in enumerate(self._outputs, len(self._rounded)):
            if (index, False) in rows:
                yield _tensor(name, "output", "", rows[index, False])


def _activation(
    rounded: _Rounded, rounding: NDArray[np.float64], whole: NDArray[np.float64] | None
) -> TensorComparison:
    own, levels = _total(rounding), rounded.levels
    span = rounded.step * levels
    reach = ((own[3] - own[2]) / span if span else math.inf) if levels and own[5] else None
    return _tensor(
        rounded.tensor, "activation", rounded.dtype, whole,
        rounding_sqnr=decibels(own[0], own[1]),
        clipped=own[4] / own[5] if levels and own[5] else None,
        used=None if reach is None else min(reach, 1.0),
    )  # fmt: skip


def _tensor(
    name: str,
    kind: Literal["activation", "weight", "output"],
    dtype: str,
    whole: NDArray[np.float64] | None,
    **own: Any,
) -> TensorComparison:
    if whole is None:
        return TensorComparison(name, kind, dtype, None, **own)
    total = _total(whole)
    ratio = decibels(total[0], total[1])
    return TensorComparison(
        name, kind, dtype, ratio, worst_channels=worst_channels(whole), not_finite=int(total[6]), **own
    )


def _total(sums: NDArray[np.float64]) -> list[float]:
    return [float(each) for each in total_of(sums)[0]]


def _levels(codes: Codes) -> int:
    """Returns how many steps lie between the least and the largest code of an integer type; 0 for other types."""
    integer = codes.dtype is not None and codes.dtype.is_integer()
    return (1 << int(codes.dtype.bitwidth)) - 1 if codes.dtype is not None and integer else 0


def _tensors_of(model: ir.Model) -> dict[str, ir.Value]:
    graph = model.graph
    computed = (value for node in graph for value in node.outputs if value.name)
    return {name_of(value): value for value in (*graph.inputs, *graph.initializers.values(), *computed)}


def _outputs(own: Iterable[ir.Value], others: Mapping[str, ir.Value]) -> dict[str, tuple[ir.Value, ir.Value]]:
    """Returns outputs that both models have, by name, or by position where no name is the same."""
    by_name = {name_of(one): (one, others[name_of(one)]) for one in own if name_of(one) in others}
    return by_name or {name_of(one): (one, other) for one, other in zip(own, others.values(), strict=False)}


def _is_compared(output: ir.Value) -> bool:
    """Whether an output is one tensor of numbers."""
    return is_tensor(output) and output.dtype != ir.DataType.STRING


def _changed(model: ir.Model, value: ir.Value, op_type: str, number: float) -> ir.Value:
    """Returns a tensor of `model` times a factor or less an offset, as its quantized form is."""
    if number == _NEUTRAL[op_type]:
        return value
    builder = GraphBuilder(model)
    constant = builder.initializer(f"{name_of(value)}_{op_type}_number", np.array(number, np.float32))
    changed = builder.call(ir.Node("", op_type, [value, constant]), f"{name_of(value)}_{op_type}")
    changed.outputs[0].type, changed.outputs[0].shape = value.type, value.shape
    model.graph.append(changed)
    return changed.outputs[0]


def _differ(one: ir.Value, other: ir.Value) -> bool:
    """Whether the shapes of two tensors are known to differ."""
    if one.shape is None or other.shape is None:
        return False
    sizes = list(zip(one.shape, other.shape, strict=False))
    return len(one.shape) != len(other.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes
    )
