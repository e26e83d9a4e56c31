"""ml_dtypes: casting copies between preallocated arrays of its NumPy types."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401  (registers the types; absent means that this contestant is)

from bench.contestants.with_numpy import copies
from bench.workload import Entry, Workload

NAME = "ml_dtypes"
EXACT = True
HAS_THREADS = False


def _copied(*dtypes: str) -> Any:
    def setup(work: Workload, threads: int) -> Entry | None:
        return None if work.task.type == "float16" else copies(work, dtypes)

    return setup


SETUPS = {"cast": _copied("type"), "widen": _copied("float32"), "round_trip": _copied("type", "float32")}
