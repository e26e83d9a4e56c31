"""Elements a cycle where everything lies in the second-level cache, on every instruction set, one thread.

Two sizes are timed and the difference counts, so that the constant cost of a call drops out. Beside the kernels stand
the limits: a plain copy, and NumPy's division of float32 by a scalar, which the divider of the core alone holds back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quarkfast
from bench import clock
from bench.contestants import with_quarkfast
from bench.operations import OPERATIONS
from bench.race import timed
from bench.workload import Task, Workload

# float32 elements; the larger with its output takes at most 512 KiB of a second-level cache of at least 1 MiB.
SIZES = (16384, 65536)
TASKS = (
    Task("quantize_linear", "int8"),
    Task("quantize_linear", "int16"),
    Task("quantize_linear", "int32"),
    Task("quantize_linear", "int8", "last axis"),
    Task("dequantize_linear", "int8"),
    Task("fake_quantize_linear", "int8"),
    Task("pack_codes", "int4"),
    Task("cast", "bfloat16"),
    Task("cast", "float16"),
    Task("round_trip", "bfloat16"),
    Task("round_trip", "float16"),
    Task("fake_quantize_bfp", "BFP16"),
    Task("fake_quantize_mx", "fp8_e4m3"),
    Task("reduce_range"),
    Task("absmax"),
    Task("moments"),
    Task("histogram"),
)


def setup(task: Task, n: int) -> Callable[[], object]:
    work = Workload(task, n, OPERATIONS[task.operation].expected)
    return with_quarkfast.SETUPS[task.operation](work, 1).run


def copy_and_division(n: int) -> dict[str, Callable[[], object]]:
    x, y = np.ones(n, np.float32), np.empty(n, np.float32)
    return {"copy": lambda: np.copyto(y, x), "numpy.divide": lambda: np.divide(x, np.float32(3), out=y)}


@pytest.mark.skipif(not clock.available(), reason="the clock is read by machine code for x86-64")
@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("name", ["limits", *map(str, TASKS)])
def test_cycles(benchmark: Any, case_seconds: float, name: str) -> None:
    quarkfast.set_num_threads(1)
    hertz = clock.cycle_counter()
    runs = _runs(name)
    fastest: dict[tuple[str, int], float] = {}
    clocks: list[float] = []

    def round_of_all() -> None:
        clocks.append(hertz())
        for key, (isa, run) in runs.items():
            with quarkfast.use_isa(isa):
                fastest[key] = min(fastest.get(key, np.inf), timed(run, 8))

    rounds = max(10, round(case_seconds / 0.02))
    benchmark.group = f"cycles/{name}"
    benchmark.pedantic(round_of_all, rounds=rounds)
    if benchmark.stats is None:
        return
    rate = max(clocks)
    labels = dict.fromkeys(label for label, _ in runs)
    slope = {label: (fastest[label, SIZES[1]] - fastest[label, SIZES[0]]) * rate for label in labels}
    benchmark.extra_info.update(
        kind="cycles",
        task=name,
        clock=rate,
        per_cycle={label: (SIZES[1] - SIZES[0]) / cycles for label, cycles in slope.items()},
    )


def _runs(name: str) -> dict[tuple[str, int], tuple[str, Callable[[], object]]]:
    """Both sizes of each instruction set, or of each limit."""
    best = quarkfast.available_isas()[0]
    if name == "limits":
        return {(label, n): (best, run) for n in SIZES for label, run in copy_and_division(n).items()}
    task = next(task for task in TASKS if str(task) == name)
    return {(isa, n): (isa, setup(task, n)) for n in SIZES for isa in quarkfast.available_isas()}
