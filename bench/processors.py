"""What two processors give together: ``python -m bench.processors [WORD ...]``, the tasks whose names hold a WORD.

Two threads that share nothing are two processes. Of each task of 1 MiB this prints how many times faster two processes
are that do one half each, one on each of two processors, than one that does the whole; and how many times faster the
kernel is with two threads. Where both fall short of 2 alike, the processors share what the kernel needs (a core, its
ports, the way to memory) and no program can do more. Rounds take turns; the medians are compared.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import quarkfast
from bench.contestants import with_quarkfast
from bench.operations import OPERATIONS
from bench.tasks import TASKS
from bench.workload import Task, Workload

SIZE = 1 << 18  # elements: 1 MiB of float32
ROUNDS = 60
ROUND_SECONDS = 0.01
WHOLE, HALF, THREADS = range(3)


def calls_of(task: Task, elements: int) -> tuple[Callable[[], object], int]:
    """Returns a call of the kernel on so many elements, and how many calls last a round."""
    operation = OPERATIONS[task.operation]
    run = with_quarkfast.SETUPS[task.operation](Workload(task, elements, operation.expected), 1).run
    run()
    start = time.perf_counter()
    run()
    return run, max(1, round(ROUND_SECONDS / (time.perf_counter() - start)))


def worker(task: Task, processor: int | None, barrier: Any, results: Any) -> None:
    """Takes part in every phase of every round; `processor` is None for the one that has two threads."""
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    quarkfast.set_num_threads(2 if processor is None else 1)
    kernels = {WHOLE: calls_of(task, SIZE), HALF: calls_of(task, SIZE // 2)}
    kernels[THREADS] = kernels[WHOLE]
    first = min(os.sched_getaffinity(0)) if processor is None else processor
    found: dict[int, list[float]] = {phase: [] for phase in kernels}
    for _ in range(ROUNDS):
        for phase, (run, count) in kernels.items():
            barrier.wait()
            takes_part = processor is None if phase == THREADS else processor is not None
            if not takes_part or (phase == WHOLE and first != min(PROCESSORS)):
                continue
            start = time.perf_counter()
            for _ in range(count):
                run()
            found[phase].append((time.perf_counter() - start) / count)
    results.put({phase: statistics.quantiles(seconds, n=5)[0] for phase, seconds in found.items() if seconds})


PROCESSORS = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else []


def measure(task: Task) -> tuple[float, float]:
    """Returns how many times faster two processes are than one, and two threads."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    jobs = [context.Process(target=worker, args=(task, each, barrier, results)) for each in (*PROCESSORS, None)]
    for job in jobs:
        job.start()
    found = [results.get() for _ in jobs]
    for job in jobs:
        job.join()
    seconds = {phase: max(each[phase] for each in found if phase in each) for phase in (WHOLE, HALF, THREADS)}
    return seconds[WHOLE] / seconds[HALF], seconds[WHOLE] / seconds[THREADS]


def main() -> None:
    """Prints a Markdown table."""
    if len(PROCESSORS) < 2:
        sys.exit("processors: expected two processors that a process can be bound to")
    words = sys.argv[1:]
    print("| task, 1 MiB | two processes | two threads |\n| :-- | --: | --: |")
    for task in TASKS:
        if not words or any(word in str(task) for word in words):
            print("| {} | {:.2f} | {:.2f} |".format(task, *measure(task)), flush=True)


if __name__ == "__main__":
    main()
