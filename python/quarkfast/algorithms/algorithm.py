"""The algorithm: settings, a statistics request, what it works on, and a function that applies it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.evaluate.sample_noise import TriedForm
from quarkfast.graph.placement import Placement
from quarkfast.kernels import Range
from quarkfast.reconstruction import Models
from quarkfast.statistics import StatisticsRequest, TensorStatistics
from quarkfast.targets import Target

__all__ = ["Algorithm", "AlgorithmContext", "Settings", "WorksOn"]

Settings: TypeAlias = Any
"""A frozen dataclass of an algorithm's own."""

WorksOn = Literal["float weights", "scales", "codes"]


class AlgorithmContext(Protocol):
    """What an algorithm reads and changes; a recipe's context has all of it, each once the step that makes it has run.

    Attributes:
        model: The prepared model.
        scheme: What was asked for.
        target: What it is placed for.
        placement: Where quantization goes.
        channels_between: The largest magnitude of each channel between layers that may be equalized, by tensor; empty
            where no sample was run for that.
        channel_maxima: The largest magnitude of each channel over the samples, by tensor; None without real samples.
        input_means: The mean of what layers read, by node, of those whose biases were corrected.
        has_real_samples: Whether there are statistics of samples to be had that are not random.
        samples: Number of samples.
        statistics: What these showed of the tensors that were requested.
        ranges: The range to keep of each activation.
        cut: Activations that saturate where their reader is flat.
        wider: Those of activations that reach further than what was seen: of few values, of 16 bits, or bounded.
        shifted: What activations have lost so that these ranges suit their codes; None where nothing.
        factors: What activations are multiplied by for the same reason, by tensor; those of 1 are left out.
        ranges_judged: Whether samples have judged ranges along with these factors.
        notes: What was done differently from what was asked, one sentence each.
        plan: Scales and codes (`quarkfast.quantization.Plan`), for algorithms that work on these.
    """

    model: ir.Model
    scheme: Scheme
    target: Target
    placement: Placement
    channels_between: Mapping[str, NDArray[np.float32]]
    channel_maxima: Mapping[str, NDArray[np.float32]] | None
    input_means: Mapping[str, NDArray[np.float64]]
    samples: int
    statistics: Mapping[str, TensorStatistics]
    ranges: Mapping[str, Range]
    cut: Mapping[str, float]
    wider: Mapping[str, Range]
    shifted: Any
    factors: Mapping[str, float]
    ranges_judged: bool
    notes: list[str]
    plan: Any

    @property
    def has_real_samples(self) -> bool:
        """Whether there are statistics of samples to be had that are not random."""

    @property
    def may_run_samples(self) -> bool:
        """Whether there are samples that are not random, on which the model may run with all its tensors in memory."""

    def read_samples(self, most: int) -> list[Mapping[str, NDArray[Any]]]:
        """Returns the first samples, one row each where the model allows it."""

    def simulate(self, weights: Collection[str]) -> Models:
        """Returns the float model, and one with pairs in which some weights are the values of their codes."""

    def plan_with(self, ranges: Mapping[str, Range]) -> Any:
        """Returns scales and codes for other ranges of activations, for :meth:`take_plan`."""

    def plan_fitted(self, ranges: Mapping[str, Range]) -> Any:
        """Returns the same, with ranges that end where the functions that read them are flat."""

    def plan_by_method(self, method: str) -> Any:
        """Returns scales and codes for ranges of another method than the scheme's, for :meth:`take_plan`."""

    def take_plan(self, planned: Any) -> None:
        """Puts what :meth:`plan_with` or :meth:`plan_by_method` returned in the place of the plan."""

    def float_proto(self) -> Any:
        """Returns the prepared model as a protobuf with all its constants in it."""

    def float_reference(self) -> tuple[Any, Path | None]:
        """Returns the prepared model as a protobuf, and the folder of its constants or None where they are in it."""

    def simulate_activations(self, planned: Sequence[Any | None]) -> list[TriedForm]:
        """Returns forms of the model in which activations are rounded and nothing else; of the plan for None."""

    def coded_weights(self) -> Mapping[str, Any]:
        """Returns the weights of layers that have codes (`quarkfast.quantization.QuantizedTensor`), by name."""

    def movable_biases(self) -> Mapping[str, Any]:
        """Returns the biases that have integer codes, and those that stay float, by name."""

    def replace_codes(self, found: Mapping[str, Any]) -> None:
        """Takes other codes for weights and biases into the plan."""

    def report(self, done: int, total: int) -> None:
        """Says how many layers are done."""


def _nothing(context: AlgorithmContext, settings: Settings) -> StatisticsRequest:
    return StatisticsRequest()


def _none(settings: Settings) -> int:
    return 0


@dataclass(frozen=True)
class Algorithm:
    """One row of the registry, and a step of a recipe (`quarkfast.pipeline.step.Step`).

    Attributes:
        name: The field's term.
        works_on: Float weights, which are rewritten before ranges are known; or the scales or codes of a plan.
        settings: From a scheme to the settings that it means; None where the algorithm is not wanted.
        change: Does it, and returns whether anything changed.
        request: Returns the statistics that it needs.
        stage: The stage of the progress that it belongs to.
        reread: Returns how many of the first samples it reads again.

    Example:
        >>> from quarkfast.algorithms import ALGORITHMS
        >>> from quarkfast.config import PRESETS
        >>> [each.name for each in ALGORITHMS if each.settings(PRESETS["A8W8"])]
        ['cross-layer equalization', 'range method', 'bias correction']
    """

    name: str
    works_on: WorksOn
    settings: Callable[[Scheme], Settings | None]
    change: Callable[[Any, Any], bool]
    request: Callable[[Any, Any], StatisticsRequest] = _nothing
    stage: str = "insert"
    reread: Callable[[Any], int] = _none

    def applies(self, context: AlgorithmContext) -> bool:
        """Whether the scheme of `context` wants it."""
        return self.settings(context.scheme) is not None

    def requires(self, context: AlgorithmContext) -> StatisticsRequest:
        """Returns the statistics that must be gathered before it runs."""
        settings = self.settings(context.scheme)
        return StatisticsRequest() if settings is None else self.request(context, settings)

    def rereads(self, context: AlgorithmContext) -> int:
        """Returns how many of the first samples it reads once more after statistics have been gathered."""
        settings = self.settings(context.scheme)
        return 0 if settings is None else self.reread(settings)

    def run(self, context: AlgorithmContext) -> bool:
        """Changes the model or the plan of `context`; returns whether it changed anything."""
        settings = self.settings(context.scheme)
        return settings is not None and self.change(context, settings)
