"""Every task at every size on one thread and on two: quarkfast, its rivals and a plain copy, interleaved."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

import quarkfast
from bench.operations import OPERATIONS
from bench.race import Race
from bench.tasks import TASKS
from bench.workload import SIZES, Task, Workload

CASES = [(size, 1) for size in SIZES] + [(size, 2) for size in SIZES if size != "16 KiB"]


# torch announces the end of its quantized tensors; until then they are its way to do this.
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize(("size", "threads"), CASES, ids=[f"{size}-{threads}" for size, threads in CASES])
@pytest.mark.parametrize("task", TASKS, ids=str)
def test_kernel(
    benchmark: Any, rivals: dict[str, ModuleType], case_seconds: float, task: Task, size: str, threads: int
) -> None:
    if threads > (os.cpu_count() or 1):
        pytest.skip(f"needs {threads} processors")
    work = Workload(task, SIZES[size] // 4, OPERATIONS[task.operation].expected)
    race = Race(work, rivals, threads)
    benchmark.group = f"{task}/{size}/{threads}"
    rounds = min(60, max(5, round(case_seconds / race.round_seconds())))
    # The set-up of a round is not timed: there the rivals take their turn.
    benchmark.pedantic(race.run_quarkfast, setup=race.run_rivals, rounds=rounds)
    if benchmark.stats is None:  # --benchmark-disable: the results were checked, nothing was timed
        return
    benchmark.extra_info.update(
        kind="kernel",
        task=str(task),
        size=size,
        threads=threads,
        bar=task.bar,
        isa=quarkfast.active_isa(),
        elements=work.x.size,
        bytes_moved=OPERATIONS[task.operation].bytes_moved(work),
        seconds=race.summary(benchmark.stats.stats.data),
    )
