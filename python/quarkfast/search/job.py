"""What is quantized, and the ways to do it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from quarkfast.calibration.data import CalibrationData, Feed, Samples, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_files, load_model
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import Summary
from quarkfast.quantization.weight_precision import USUAL, Effort
from quarkfast.statistics import Calibration
from quarkfast.targets import Target

__all__ = ["Attempt", "Job", "Made"]

_BYTE = 8


@dataclass(frozen=True, slots=True)
class Attempt:
    """A way to quantize: a scheme, where it is placed, and how far weights are improved by other forms."""

    scheme: Scheme
    target: Target
    effort: Effort = USUAL

    @property
    def makes_up(self) -> bool:
        """Whether codes of weights or biases make up for what activations lose: they are wrong beside others."""
        return self.scheme.rounding != "nearest" or self.scheme.output_bias_correction

    @property
    def few_bits(self) -> int:
        """The most bits of an activation that levers may give more: 8, or 16 where the preset gives all of them 16."""
        row = self.scheme.activation.format
        return _BYTE if row.is_block else max(_BYTE, math.ceil(row.bits))

    @property
    def plain(self) -> Attempt:
        """The same with codes and biases that make up for nothing."""
        plain = replace(self.scheme, rounding="nearest", rounding_options=(), output_bias_correction=False)
        return replace(self, scheme=plain)


@dataclass(frozen=True, slots=True)
class Job:
    """What is quantized, as :func:`quarkfast.quantize` takes it.

    Attributes:
        may_correct_biases: Whether biases may be corrected by the outputs where nobody asked for it.
    """

    model: ModelSource
    path: Path | None
    preset: str | Scheme
    options: Mapping[str, Any]
    samples: CalibrationData | None
    calibration: Calibration | str | os.PathLike[str] | None
    max_memory: int | str | None
    clock: Clock
    histograms: bool

    @property
    def may_correct_biases(self) -> bool:
        """Whether biases may be corrected by the outputs where these are poor: nobody has said whether to."""
        return "output_bias_correction" not in self.options

    @property
    def attempt(self) -> Attempt:
        """The way to quantize that is asked for."""
        return Attempt(*resolve(self.preset, self.options))

    def open_samples(self) -> Samples:
        """Opens the samples, cut into rows where the model lets them be."""
        loaded, scheme = load_model(self.model), self.attempt.scheme
        if self.path is not None:
            check_not_a_source(self.path, self.model, external_files(loaded))
        inputs = model_inputs(loaded)
        samples = open_data(self.samples, inputs, scheme.samples, scheme.batch_size, scheme.preprocess)
        if not samples.random:
            cut_to_rows(samples, loaded)
        return samples

    def read_real_samples(self, name: str) -> list[Feed]:
        """Returns all samples, row by row.

        Args:
            name: The option that wants them.

        Raises:
            ConfigError: If there are none, or they are random.
            CalibrationError: If they do not fit the model.
        """
        if self.samples is None:
            got = "none" if self.calibration is None else "a calibration"
            raise ConfigError(f"{name}: expected calibration_data to judge outputs on, got {got}")
        samples = self.open_samples()
        if samples.random:
            raise ConfigError(f"{name}: expected real samples to judge outputs on, got random ones")
        return [dict(feed) for feed in samples]


class Made(NamedTuple):
    """A model that was made, and the summary of that."""

    data: bytes
    summary: Summary
