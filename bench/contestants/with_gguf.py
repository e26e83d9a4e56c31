"""The gguf package: its NumPy quantizers, which have no output and no encoder of super-blocks."""

from __future__ import annotations

from typing import Any

import gguf

from bench.operations import OPERATIONS
from bench.workload import Entry, Workload

NAME = "gguf"
EXACT = True
HAS_THREADS = False


def _called(function: Any) -> Any:
    def setup(work: Workload, threads: int) -> Entry | None:
        name = work.task.type
        if function is gguf.quants.quantize and name.endswith("_K"):
            return None
        x, kind = OPERATIONS[work.task.operation].input(work), gguf.GGMLQuantizationType[name]
        made: list[Any] = []

        def run() -> None:
            made[:] = [function(x, kind)]

        return Entry(run, lambda: made[0])

    return setup


SETUPS = {"quantize_gguf": _called(gguf.quants.quantize), "dequantize_gguf": _called(gguf.quants.dequantize)}
