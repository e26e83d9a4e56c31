"""What the steps of a recipe read and change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.calibration.data import Feed
from quarkfast.config import Scheme, TensorRule
from quarkfast.deferred import ir
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.graph.access import name_of, shape_of, tensor_of
from quarkfast.graph.external_constants import proto_and_folder
from quarkfast.graph.load import ModelSource
from quarkfast.graph.placement import ConstantSlot, Placement, Quantizers
from quarkfast.graph.save import to_proto
from quarkfast.graph.scalar_functions import ScalarFunction
from quarkfast.kernels import Range
from quarkfast.pipeline.cache import Cache
from quarkfast.pipeline.calibration_source import CalibrationSource
from quarkfast.pipeline.method_ranges import plan_by_method, plan_fitted
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.replan import Planned, plan_with, take_plan
from quarkfast.pipeline.simulate import read_samples, simulate, simulate_activations
from quarkfast.quantization import (
    BoundedResult,
    Diagnostics,
    FloatBias,
    KnownConstant,
    Plan,
    QuantizedBlocks,
    QuantizedTensor,
    Records,
)
from quarkfast.quantization.weight_precision import USUAL, Effort
from quarkfast.reconstruction import Models, linear_layers
from quarkfast.statistics import Calibration, StatisticsRequest, TensorStatistics
from quarkfast.targets import Conversion, Target
from quarkfast.transforms.constants import Checked

if TYPE_CHECKING:
    from quarkfast.algorithms.activation_shifting import Shifted
    from quarkfast.quantization.weight_only import CodedWeight, WeightPlacement, WeightPlan

__all__ = ["Context", "ModelContext", "Uncorrected", "WrittenModel"]

_Found = TypeVar("_Found")


@dataclass(kw_only=True)
class ModelContext:
    """What float rewrites need to know.

    Attributes:
        model: The model; a step may put another in its place.
        opset: The oldest operator set that the quantized model can do with.
        scheme: What was asked for, by which algorithms know their settings.
        conversions: Rewrites of the float model for its target.
        checked: Constants that hold no NaN, while there are others to check.
        channels_between: The largest magnitude of each channel between layers that may be equalized, by tensor; empty
            where no sample was run for that.
        opset_before: The operator set of the model as it was given; 0 where that is not known yet.
    """

    model: ir.Model
    opset: int
    scheme: Scheme
    conversions: tuple[Conversion, ...] = ()
    checked: Checked = field(default_factory=dict)
    channels_between: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    opset_before: int = 0


@dataclass
class Uncorrected:
    """A model without output bias correction that was added to it.

    Attributes:
        data: The bytes of the ONNX file; empty where nothing was added.
        outputs: Its float outputs with their measured ratio of signal to quantization noise in dB, the worst first.
    """

    data: bytes = b""
    outputs: tuple[tuple[str, float], ...] = ()


class WrittenModel(NamedTuple):
    """The bytes of the ONNX file.

    Attributes:
        data: The bytes.
        size: How many there are with those of a second file, where that is on the disk already; else None.
        opset: Version of the standard operators.
    """

    data: bytes
    size: int | None
    opset: int


@dataclass(kw_only=True)
class Context(ModelContext):
    """All that a quantization knows; each attribute is set by the step that finds it.

    Attributes:
        target: What it is placed for.
        source: Samples, or a calibration.
        float_model: The model as it was given.
        key: Hash of the model and its settings that a calibration must have.
        clock: Measures the stages.
        path: Where the result will be written, or None.
        two_files: Whether the result's data goes into a file of its own, if it is written.
        resources: Closed when the recipe is at its end.
        unchanged: Whether there is nothing to quantize, so that the recipe ends early.
        placement: Where pairs go.
        effort: How far weights are improved by other forms.
        cache: What quantizations of the same model on the same samples have found out; None for one alone.
        tensor_rules: Forms of tensors other than the scheme's own.
        weight_plan: Which weights are stored in a narrower type, and their codes, where activations are left alone.
        request: The statistics that the steps of the stage wanted.
        calibration: What came of that; None where nothing was wanted.
        channel_maxima: The largest magnitude of each channel over the samples, by tensor; None without real samples.
        input_means: The mean of what layers read, ``[groups, inputs]``, by node, of those whose biases were corrected.
        statistics: Of activations, by tensor.
        ranges: The range to keep of each activation.
        functions: A placement, and the activations that functions read in it, if they have been looked for.
        bounded: A placement, and the activations that bounded functions give in it, if they have been looked for.
        cut: Activations that saturate where their reader is flat -> the ratio of signal to noise of its results, in dB.
        wider: Those of activations that reach further than what was seen: of few values, of 16 bits, or bounded.
        shifted: What activations have lost, and the limits that have moved with them; None where none has.
        factors: What activations are multiplied by, by tensor; those of 1 are left out.
        ranges_judged: Whether samples have judged ranges along with these factors.
        range_notes: What there is to say of both.
        fingerprints: What calibration saw of each tensor, for the hash in the metadata.
        samples: Number of calibration samples.
        known_constants: Quantizers of constants by themselves, which other ranges of activations leave as they are.
        quantizers: Every scale and zero point.
        plan: The quantizers and the codes of constants, until they are written into the model.
        diagnostics: What is noteworthy about tensors.
        histograms: Whether a histogram of each activation is gathered also where no method reads it.
        uncorrected: Filled where output bias correction is added that nobody asked for; None where it may not be.
        unwritten: This context as it was before pairs were written, where that may be tried.
        records: What there is to show of every node and tensor.
        preflight: What keeps an NPU from running the model.
        first_sample: The sample on which outputs are measured, or None.
        notes: What was done differently from what was asked, one sentence each.
        outputs: Float outputs with their measured ratio of signal to quantization noise in dB.
        written: The result, where it has been made.
    """

    target: Target
    source: CalibrationSource = field(default_factory=CalibrationSource)
    float_model: ModelSource
    key: str = ""
    clock: Clock = field(default_factory=Clock)
    path: Path | None = None
    two_files: bool = False
    resources: ExitStack = field(default_factory=ExitStack)
    unchanged: bool = False
    placement: Placement = field(init=False)
    effort: Effort = USUAL
    cache: Cache | None = None
    tensor_rules: tuple[TensorRule, ...] = ()
    weight_plan: WeightPlan = field(init=False)
    request: StatisticsRequest = field(default_factory=StatisticsRequest)
    calibration: Calibration | None = None
    channel_maxima: Mapping[str, NDArray[np.float32]] | None = None
    input_means: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    statistics: Mapping[str, TensorStatistics] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    functions: tuple[Placement, Mapping[str, ScalarFunction]] | None = None
    bounded: tuple[Placement, Mapping[str, BoundedResult]] | None = None
    cut: Mapping[str, float] = field(default_factory=dict)
    wider: Mapping[str, Range] = field(default_factory=dict)
    range_notes: list[str] = field(default_factory=list)
    shifted: Shifted | None = None
    factors: Mapping[str, float] = field(default_factory=dict)
    ranges_judged: bool = False
    fingerprints: Mapping[str, Sequence[float]] = field(default_factory=dict)
    samples: int = 0
    known_constants: dict[ConstantSlot, KnownConstant] = field(default_factory=dict)
    quantizers: Quantizers | None = None
    plan: Plan | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    histograms: bool = False
    uncorrected: Uncorrected | None = None
    unwritten: Context | None = None
    records: Records = field(default_factory=Records)
    preflight: tuple[str, ...] = ()
    first_sample: Feed | None = None
    notes: list[str] = field(default_factory=list)
    outputs: tuple[tuple[str, float], ...] = ()
    written: WrittenModel | None = None

    @property
    def has_real_samples(self) -> bool:
        """Whether there are statistics of samples to be had that are not random."""
        return self.source.is_real(self.model, self.scheme)

    @property
    def may_run_samples(self) -> bool:
        """Whether there are samples that are not random, on which the model may run with all its tensors in memory."""
        return self.source.sample_to_measure(self.model, self.scheme)[0] is not None

    def read_samples(self, most: int) -> list[Mapping[str, NDArray[Any]]]:
        """Returns the first samples, one row each where the model allows it."""
        return read_samples(self, most)

    def simulate(self, weights: Collection[str]) -> Models:
        """Returns the float model, and one with pairs in which some weights are the values of their codes."""
        return simulate(self, weights)

    def plan_with(self, ranges: Mapping[str, Range]) -> Planned:
        """Returns scales and codes for other ranges of activations."""
        return plan_with(self, ranges)

    def plan_fitted(self, ranges: Mapping[str, Range]) -> Planned:
        """Returns the same, with ranges that end where the functions that read them are flat."""
        return plan_fitted(self, ranges)

    def plan_by_method(self, method: str) -> Planned:
        """Returns scales and codes for ranges of another method than the scheme's."""
        return plan_by_method(self, method)

    def take_plan(self, planned: Planned) -> None:
        """Puts other scales and codes in the place of the plan."""
        take_plan(self, planned)

    def float_proto(self) -> onnx.ModelProto:
        """Returns the prepared model as a protobuf with all its constants in it."""
        return to_proto(self.model)

    def float_reference(self) -> tuple[onnx.ModelProto, Path | None]:
        """Returns the prepared model as a protobuf, and the folder of its constants or None where they are in it."""
        return proto_and_folder(self.model)

    def simulate_activations(self, planned: Sequence[Planned | None]) -> list[TriedForm]:
        """Returns forms of the model in which activations are rounded and nothing else; of the plan for None."""
        plans = [self.plan if each is None else each.plan for each in planned]
        return simulate_activations(self, [plan for plan in plans if plan is not None])

    def once(self, kind: str, asked: object, make: Callable[[], _Found]) -> _Found:
        """Returns what `make` finds on the model and the samples, or found in another quantization of the same."""
        return make() if self.cache is None else self.cache.find(kind, self.model, asked, make)

    def coded_weights(self) -> Mapping[str, QuantizedTensor | QuantizedBlocks | CodedWeight]:
        """Returns the weights of layers that have codes, by name."""
        if self.scheme.weights_only:
            return self.weight_plan.coded(self.scheme)
        assert self.plan is not None
        return {slot.tensor: tensor for slot, tensor in self.plan.constants if slot.role == "weight"}

    def movable_biases(self) -> Mapping[str, QuantizedTensor | FloatBias]:
        """Returns the biases that have integer codes, and the float32 ones that stay float, by name."""
        if self.scheme.weights_only:
            return {**self.float_biases(added=True), **self.weight_plan.moved}
        if self.plan is None:
            return {}
        constants = {slot.tensor: tensor for slot, tensor in self.plan.constants}
        floats = {**self.float_biases(), **self.plan.moved}
        found: dict[str, QuantizedTensor | FloatBias] = {n: each for n, each in floats.items() if n not in constants}
        found |= {slot.tensor: tensor for slot, tensor in self.plan.biases}
        for layer in linear_layers(self.model):
            tensor = constants.get(layer.bias or "")
            groups, outputs, _ = layer.matrix_shape
            if isinstance(tensor, QuantizedTensor) and tensor.is_integer and tensor.values.size == groups * outputs:
                found[str(layer.bias)] = tensor
        return found

    def float_biases(self, *, added: bool = False) -> dict[str, FloatBias]:
        """Returns the biases that are float32 in the model, by name; with those that an Add behind a layer has."""
        values, found = self.model.graph.initializers, dict[str, FloatBias]()
        for layer in linear_layers(self.model, added=added):
            bias = values.get(layer.bias or "")
            groups, outputs, _ = layer.matrix_shape
            if (
                bias is not None
                and bias.dtype == ir.DataType.FLOAT
                and shape_of(tensor_of(bias)) == (groups * outputs,)
            ):
                found[name_of(bias)] = FloatBias(bias)
        return found

    def replace_codes(self, found: Mapping[str, Any]) -> None:
        """Takes other codes for weights and biases into the plan."""
        if self.scheme.weights_only:
            self.weight_plan = self.weight_plan.with_coded(found)
        else:
            assert self.plan is not None
            self.plan = self.plan.with_tensors(found)

    def become(self, other: Context) -> None:
        """Takes all that another context knows."""
        vars(self).update(vars(other))

    def report(self, done: int, total: int) -> None:
        """Says how many layers are done."""
        self.clock.report("round", done, total)

    @property
    def nodes(self) -> Placement | WeightPlacement:
        """The placement, whichever there is: both know which nodes are quantized and which are left float."""
        return self.weight_plan.placement if self.scheme.weights_only else self.placement
