"""Sessions of one model with quarkfast's operators and with AMD Quark's, alike in everything else."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import onnxruntime

import quarkfast

# quarkfast's comes first in every table.
LIBRARIES = ("quarkfast", "Quark")


def paths(quark_library: Path) -> dict[str, str]:
    """The operator library of each. Quark's is linked to those of torch, which lie nowhere that a loader looks."""
    importlib.import_module("torch")
    return dict(zip(LIBRARIES, (quarkfast.get_library_path(), str(quark_library)), strict=True))


def open_session(model: bytes | Path, library: str | None) -> onnxruntime.InferenceSession:
    """A session with the operators of a library, on one thread, with all of onnxruntime's graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library is not None:
        options.register_custom_ops_library(library)
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def fastest(runs: Mapping[str, Callable[[], object]], seconds: float, least_rounds: int = 3) -> dict[str, float]:
    """Least seconds of each run, which take turns, round after round, until the time is over.

    Seconds are processor time of this thread, the only one that computes: on a shared machine a run longer than a time
    slice is interrupted every time, and its wall time tells of the others.
    """
    best = dict.fromkeys(runs, float("inf"))
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least_rounds or time.perf_counter() < end:
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - begin)
        rounds += 1
    return best
