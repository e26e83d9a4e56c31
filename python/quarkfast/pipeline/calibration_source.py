"""What samples show on their way through the pipeline: how far channels reach, and the ranges of activations."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from quarkfast.config import Scheme
from quarkfast.errors import ConfigError
from quarkfast.pipeline.calibrate import open_calibration
from quarkfast.pipeline.progress import Clock

if TYPE_CHECKING:
    from quarkfast.calibration.data import CalibrationData, Feed, Samples
    from quarkfast.deferred import ir
    from quarkfast.graph.placement import Placement
    from quarkfast.kernels import Range
    from quarkfast.statistics import Calibration, TensorStatistics
    from quarkfast.targets import Target

__all__ = ["Source", "find_ranges", "smooth_channels"]

# Bytes of activations up to which the outputs are measured. Without optimizations ONNX Runtime holds up to four times
# as much: Segment Anything's encoder at 1024 pixels (1.6 GB) took 5.5 GB so, and 2.5 GB with them.
_MOST_MEASURED = 256 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """Where the statistics of activations come from: samples, or a calibration of the model and settings of `key`."""

    data: CalibrationData | None
    calibration: Calibration | str | os.PathLike[str] | None
    max_memory: int | str | None
    key: str
    reaches: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of channels, where these were asked for
    samples: int = 0  # that showed them
    first: Feed | None = None  # of the samples, cut to one row where the model allows it
    notes: tuple[str, ...] = ()  # what there is to say of that

    def __post_init__(self) -> None:
        if self.data is not None and self.calibration is not None:
            raise ConfigError("calibration: expected it or calibration_data, got both; leave one out")

    def with_first(self, model: ir.Model, scheme: Scheme) -> Source:
        """Returns the source with its first sample, where there are samples and nothing has read them."""
        if self.data is None or self.first is not None:
            return self
        samples = self.open(model, scheme)
        return self if samples.random else replace(self, first=samples.row())

    def open(self, model: ir.Model, scheme: Scheme) -> Samples:
        """Opens the samples as `model` wants them."""
        from quarkfast.calibration.data import model_inputs, open_data

        return open_data(self.data, model_inputs(model), scheme.samples, scheme.batch_size, scheme.preprocess)

    def sample_to_measure(self, model: ir.Model) -> tuple[Feed | None, tuple[str, ...]]:
        """Returns the first sample, unless its activations take too much memory, and what there is to say of that."""
        from quarkfast.calibration import live_bytes, readable

        if self.first is None:
            return None, ()
        live, most = live_bytes(model, self.first), _MOST_MEASURED if self.limit is None else self.limit // 4
        if live <= min(most, _MOST_MEASURED):
            return self.first, ()
        return None, (f"the outputs on the first sample are not measured: its activations take {readable(live)}",)

    @property
    def limit(self) -> int | None:
        """Most bytes that the process may hold."""
        from quarkfast.calibration import parse_bytes

        return None if self.max_memory is None else parse_bytes(self.max_memory)


def smooth_channels(model: ir.Model, placement: Placement, scheme: Scheme, source: Source, clock: Clock) -> Source:
    """Makes channels that stand out smaller, by what samples show where there are some, and returns that as well."""
    from quarkfast.algorithms import smooth, smoothable
    from quarkfast.calibration import Gather, Job, channel_reaches, fit_rows

    seen = None
    tensors = smoothable(model, placement.quantized)
    samples = source.open(model, scheme) if source.data is not None and tensors else None
    if samples is not None and not samples.random:
        first = samples.row()
        fit_rows(Job(model, (), source.key, Gather(), scheme.batch_size, max_memory=source.limit), samples)
        with clock.stage("calibrate", samples.total) as report:
            seen, count = channel_reaches(model, tensors, samples, report)
        reaches = {name: reach.tolist() for name, reach in seen.items()}
        source = replace(source, reaches=reaches, samples=count, first=first)
    changed = smooth(model, placement.quantized, seen)
    if not changed:
        return source
    told = "as estimated from the weights" if seen is None else "as seen in the samples"
    note = f"smoothing: {changed} of {len(tensors)} tensors have smaller channels in front of matrix products, {told}"
    return replace(source, notes=(note,))


def find_ranges(
    model: ir.Model, placement: Placement, scheme: Scheme, target: Target, source: Source, clock: Clock
) -> tuple[dict[str, Range], dict[str, TensorStatistics], int, Source]:
    """Returns the range to keep and the statistics of each tensor, the number of samples, and what the source shows."""
    from quarkfast.calibration import Gather, Job, calibrate_prepared
    from quarkfast.quantization import needs_ranges, observed_channels
    from quarkfast.ranges.estimate import estimate_ranges, needs_histogram

    if not needs_ranges(scheme) or not placement.observed:
        return {}, {}, 0, source.with_first(model, scheme)
    axes = observed_channels(model, placement, scheme, target)
    if source.calibration is not None:
        found = open_calibration(source.calibration)
    else:
        # Opened before the stage begins: it says how many samples there are, and one that does not fit stops here.
        samples = source.open(model, scheme)
        source = replace(source, first=None if samples.random else samples.row())
        histogram = any(needs_histogram(placement.specs[name]) for name in placement.observed)
        tensors = tuple(dict.fromkeys((*placement.observed, *axes)))
        gather = Gather(histogram=histogram, axes=axes)
        job = Job(model, tensors, source.key, gather, scheme.batch_size, max_memory=source.limit)
        with clock.stage("calibrate", samples.total) as report:
            found = calibrate_prepared(job, samples, report)
    if found.random:
        model.metadata_props["quarkfast.calibration"] = "random data: the ranges of activations mean nothing"
    # A calibration for every preset knows of more channels than this one asks for.
    selected = found.select(placement.observed, source.key).items()
    statistics = {name: replace(each, channel_absmax=None) for name, each in selected}
    statistics |= {name: found.tensors[name] for name in axes if name in found.tensors}
    if found.key is None:  # a table of another tool, whose method has chosen the ranges already
        return {name: each.range for name, each in statistics.items()}, statistics, found.samples, source
    observed = {name: statistics[name] for name in placement.observed}
    return estimate_ranges(observed, placement.specs), statistics, found.samples, source
