"""A race: all contestants of a task run in turn, round after round: a slow moment of the machine affects all."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from bench.contestants import with_quarkfast
from bench.operations import OPERATIONS
from bench.workload import Entry, Workload

RIVALS = ("numpy", "ml_dtypes", "gguf", "onnxruntime", "torch")
# A round of a contestant lasts at least this long; shorter calls are repeated within it.
ROUND_SECONDS = 5e-4
# Share of elements in which a rival with other arithmetic may differ from the reference.
OTHER_ARITHMETIC = 1e-3


def load_rivals() -> tuple[dict[str, ModuleType], list[str]]:
    """The rivals that can be imported here, and the names of those that cannot."""
    found, absent = {}, []
    for name in RIVALS:
        try:
            found[name] = importlib.import_module(f"bench.contestants.with_{name}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith(("bench", "quarkfast")):
                raise
            absent.append(name)
    return found, absent


class Race:
    """One workload, its contestants set up and checked."""

    def __init__(self, work: Workload, rivals: dict[str, ModuleType], threads: int) -> None:
        self.threads = threads
        self.runs: dict[str, Callable[[], object]] = {"copy": _copy(work)}
        if OPERATIONS[work.task.operation].output is None:
            self.runs["read"] = _read(work)
        set_threads(with_quarkfast, threads)
        contestants = {"quarkfast": with_quarkfast, **rivals}
        for name, module in contestants.items():
            setup = module.SETUPS.get(work.task.operation)
            if setup is None or (threads > 1 and not module.HAS_THREADS):
                continue
            set_threads(module, threads)
            entry = setup(work, threads)
            if entry is not None:
                entry.run()
                check(name, work, entry, module.EXACT)
                self.runs[name] = entry.run
        if threads > 1:
            self.runs["quarkfast, 1 thread"] = _on_one_thread(self.runs["quarkfast"], threads)
        self.calls = {name: _calls(run) for name, run in self.runs.items()}
        self.seconds: dict[str, list[float]] = {name: [] for name in self.runs}

    def round_seconds(self) -> float:
        """Rough length of one round of everybody."""
        return sum(timed(run, self.calls[name]) * self.calls[name] for name, run in self.runs.items())

    def run_rivals(self) -> None:
        """One round of all but quarkfast, which the benchmark itself times."""
        for name, run in self.runs.items():
            if name != "quarkfast":
                self.seconds[name].append(timed(run, self.calls[name]))

    def run_quarkfast(self) -> None:
        """One round of quarkfast."""
        run = self.runs["quarkfast"]
        for _ in range(self.calls["quarkfast"]):
            run()

    def summary(self, rounds: list[float]) -> dict[str, dict[str, float]]:
        """Seconds a call of every contestant; ``rounds`` are quarkfast's."""
        self.seconds["quarkfast"] = [seconds / self.calls["quarkfast"] for seconds in rounds]
        return {
            name: {"min": min(seconds), "median": statistics.median(seconds), "calls": self.calls[name]}
            for name, seconds in self.seconds.items()
        }


def set_threads(module: ModuleType, threads: int) -> None:
    """Tell a contestant how many threads to use, where that is a setting of the process."""
    if hasattr(module, "set_threads"):
        module.set_threads(threads)


def timed(run: Callable[[], object], calls: int) -> float:
    """Seconds a call."""
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def _calls(run: Callable[[], object]) -> int:
    return max(1, round(ROUND_SECONDS / max(min(timed(run, 1) for _ in range(3)), 1e-9)))


def _copy(work: Workload) -> Callable[[], object]:
    target = np.empty_like(work.x)
    return lambda: np.copyto(target, work.x)


def _read(work: Workload) -> Callable[[], object]:
    """The least that can be done with all values: a disjunction of their bits, eight bytes at a time."""
    bits = work.x.reshape(-1).view(np.uint64)
    return lambda: np.bitwise_or.reduce(bits)


def _on_one_thread(run: Callable[[], object], threads: int) -> Callable[[], object]:
    def alone() -> None:
        with_quarkfast.set_threads(1)
        run()
        with_quarkfast.set_threads(threads)

    return alone


def check(name: str, work: Workload, entry: Entry, exact: bool) -> None:
    """Compare what the contestant made with the reference; raise when it computes something else."""
    got = np.asarray(entry.result())
    operation = OPERATIONS[work.task.operation]
    for part in [slice(0, 0)] if operation.whole else work.stretches():
        expected = np.asarray(work.expected(part))
        stretch = got.reshape(-1) if operation.whole else got.reshape(-1)[operation.place(work, part)]
        if operation.conventions and name != "quarkfast":
            share = np.abs(stretch.astype(np.float64) - expected).sum() / np.abs(expected).sum()
        else:
            share = (_bytes(stretch) != _bytes(expected.reshape(-1))).mean()
        if share > (OTHER_ARITHMETIC if operation.conventions or not exact else 0):
            raise ValueError(f"{name}: {work.task}: expected the reference's values, got others in a share of {share}")


def _bytes(values: Any) -> Any:
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.dtype.itemsize}"))
