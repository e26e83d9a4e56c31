"""Latency: how long a run of two models takes on this processor."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quarkfast import _core, ort

__all__ = ["Latency", "time_runs"]

# Runs of each model, and seconds after which no more are begun: a median of three is not moved by one hiccup.
_MOST, _LEAST, _ENOUGH = 25, 3, 2.0
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a float model and a quantized one take in default sessions of ONNX Runtime.

    Attributes:
        reference_ms: Median wall time of a run of the float model, in milliseconds.
        model_ms: The same of the quantized model.
        rows: Rows of the sample that is run.
        runs: How often each model ran, in turn, after one run that is not counted.
        threads: Processors that the sessions may use.
        processor: Name of the processor, as the system has it.
        runtime: Version of onnxruntime.
    """

    reference_ms: float
    model_ms: float
    rows: int
    runs: int
    threads: int
    processor: str
    runtime: str

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return asdict(self)


def time_runs(
    reference: str | os.PathLike[str] | bytes, model: str | os.PathLike[str] | bytes, feed: Mapping[str, Any], rows: int
) -> Latency:
    """Runs both models in turn on one feed.

    Args:
        reference: Path of the float model, or its bytes.
        model: Path of the quantized model, or its bytes.
        feed: Arrays by the names of the inputs.
        rows: How many rows they have.

    Raises:
        ModelError: If ONNX Runtime does not take a model or the feed.
    """
    sessions = [ort.inference_session(path, ort.session_options(spinning=False)) for path in (reference, model)]
    for session in sessions:
        ort.run(session, feed)
    times: list[list[float]] = [[], []]
    begin = time.perf_counter()
    while len(times[1]) < _LEAST or (len(times[1]) < _MOST and time.perf_counter() - begin < _ENOUGH):
        for session, taken in zip(sessions, times, strict=True):
            start = time.perf_counter()
            ort.run(session, feed)
            taken.append(1000 * (time.perf_counter() - start))
    one, other = map(statistics.median, times)
    return Latency(one, other, rows, len(times[1]), _core.usable_processors(), _processor(), ort.runtime_version())


def _processor() -> str:
    """Returns the name of the processor; on Linux the platform knows its architecture alone."""
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
