"""What a calibration belongs to: a hash of the model, and of what rewrites it in floats."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any

from quarkfast.calibration import CalibrationRun, calibrate_prepared, live_bytes, parse_bytes, readable
from quarkfast.calibration.data import CalibrationData, Feed, Samples, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError
from quarkfast.graph.fingerprint import fingerprint
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.single_rows import keep_whole_samples
from quarkfast.statistics import Calibration, StatisticsRequest, open_calibration

__all__ = ["NEUTRAL", "CalibrationSource", "calibration_key"]

# Fields of a scheme that leave the float model, and with it every activation, as it is. Any other field changes the
# key, so that one added later cannot let old statistics pass for new ones.
NEUTRAL = (
    *("name", "target", "activation", "weight", "bias", "encoding", "keep_float_weights", "force_pass_through"),
    *("clip_bfloat16", "shares", "packed_weights", "block_rounding", "portable", "rounding", "rounding_options"),
    *("bias_correction", "output_bias_correction", "fuse", "strict", "align_scales", "search_ranges", "constraints"),
    *("smooth_alpha", "shift_activations"),
    *("shapes", "opset", "contrib_pairs", "vaiml", "unshare_constants"),
    *("op_types", "include", "exclude", "exclude_op_types", "layers", "tensors", "samples", "batch_size", "preprocess"),
    *("extra_op_types", "input_nodes", "output_nodes", "exclude_outputs", "exclude_output_types", "mixed_precision"),
    "policy",
)

# But for these thresholds.
_REWRITING = ("equalization_", "fold_", "rotation_")


def calibration_key(model: ir.Model, scheme: Scheme) -> str:
    """Returns a hash of what decides the values of activations: the model, and options that rewrite it in floats."""
    settings = {"factors": scheme.factors} | {
        field.name: getattr(scheme, field.name)
        for field in dataclasses.fields(scheme)
        if field.name not in NEUTRAL and getattr(scheme, field.name) != field.default
    }
    settings |= {name: each for name, each in scheme.policy.changes().items() if name.startswith(_REWRITING)}
    text = fingerprint(model) + json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


_SINGLE = (
    "rows of the samples change each other's outputs in this model, so that each ran alone; where several are one "
    "sample, batch_size tells how many"
)

# No step between two that ask makes activations so many times as large: split channels become an eighth more.
_MOST_GROWTH = 8


class CalibrationSource:
    """Samples, or a calibration of a model and its settings, or neither.

    Attributes:
        calibration: The calibration, read from disk where a path was given, or None.
        has_data: Whether there are samples.
        limit: Most bytes that the process may hold, or None.
    """

    def __init__(
        self,
        data: CalibrationData | None = None,
        calibration: Calibration | str | os.PathLike[str] | None = None,
        max_memory: int | str | None = None,
    ) -> None:
        """Takes what the user gave; opens no samples.

        Raises:
            CalibrationError: If the calibration cannot be read.
            ConfigError: If there are samples and a calibration, or the size is not understood.
        """
        if data is not None and calibration is not None:
            raise ConfigError("calibration: expected it or calibration_data, got both; leave one out")
        self.calibration = None if calibration is None else open_calibration(calibration)
        self.has_data = data is not None
        self.limit = None if max_memory is None else parse_bytes(max_memory)
        self._data = data
        self._samples: Samples | None = None
        self._live: tuple[Any, Any, int] | None = None

    @property
    def is_table(self) -> bool:
        """Whether there is a table of another tool, which says nothing about its model."""
        return self.calibration is not None and self.calibration.key is None

    def samples(self, model: ir.Model, scheme: Scheme) -> Samples:
        """Returns the samples, opened once, as `model` wants them.

        Raises:
            CalibrationError: If there are none, or the first does not fit the model.
        """
        if self._samples is None:
            inputs = model_inputs(model)
            self._samples = open_data(self._data, inputs, scheme.samples, scheme.batch_size, scheme.preprocess)
            keep_whole_samples(self._samples, model)
        return self._samples

    def keep(self, model: ir.Model, scheme: Scheme, rows: int | None = None) -> None:
        """Makes sure that the samples can be read again, or the first `rows` of them."""
        if self.calibration is None:
            self.samples(model, scheme).keep(rows)

    def gather(
        self, model: ir.Model, request: StatisticsRequest, key: str, scheme: Scheme, clock: Clock
    ) -> Calibration:
        """Returns the statistics of `request`; the calibration as it is, if that is where they come from.

        Raises:
            CalibrationError: If there are no samples, they do not fit the model, or the memory does not suffice.
        """
        if self.calibration is not None:
            return self.calibration
        # Opened before the stage begins: it says how many samples there are, and one that does not fit stops here.
        samples = self.samples(model, scheme)
        run = CalibrationRun(model, request, key, scheme.batch_size, max_memory=self.limit, live=self._live_bytes)
        with clock.stage("calibrate", samples.total) as report:
            return calibrate_prepared(run, samples, report)

    def is_real(self, model: ir.Model, scheme: Scheme) -> bool:
        """Whether there are statistics of real samples to be had: not of random ones, nor a table of another tool."""
        if self.calibration is not None:
            return not self.calibration.random and not self.is_table
        return self.has_data and not self.samples(model, scheme).random

    def sample_to_measure(self, model: ir.Model, scheme: Scheme) -> tuple[Feed | None, tuple[str, ...]]:
        """Returns the first sample, unless its activations take too much memory, and what there is to say of samples.

        It is one row where the model allows that. None without samples, and with random ones.
        """
        if not self.has_data:
            return None, ()
        samples = self.samples(model, scheme)
        told = (_SINGLE,) if samples.single else ()
        if samples.random:
            return None, told
        first = samples.row()
        most = scheme.policy.measured_bytes
        most = most if self.limit is None else min(self.limit // 4, most)
        live = self._live_bytes(model, first, most // _MOST_GROWTH)
        if live <= most:
            return first, told
        unmeasured = f"the outputs on the first sample are not measured: its activations take {readable(live)}"
        return None, (*told, unmeasured)

    def _live_bytes(self, model: ir.Model, feed: Feed, few: int = 0) -> int:
        """Returns the bytes of activations of one run; known while nodes and shapes of inputs stay the same.

        Of no more than `few` it is enough to know those of the model as it was before its last steps.
        """
        shapes = {name: values.shape for name, values in feed.items()}
        if self._live is not None and self._live[1] == shapes and self._live[2] <= few:
            return self._live[2]
        nodes = [(node.op_type, *(value.name for value in node.outputs)) for node in model.graph]
        if self._live is None or self._live[:2] != (nodes, shapes):
            self._live = nodes, shapes, live_bytes(model, feed)
        return self._live[2]
