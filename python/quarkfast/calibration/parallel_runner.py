"""Samples shared out over the workers of any executor; statistics come back and are added up."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path

import onnx

from quarkfast.calibration.data import Feed
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.calibration.session import Observer, uninterrupted
from quarkfast.calibration.user_code import UserCode
from quarkfast.deferred import ir
from quarkfast.graph.external_constants import proto_and_folder
from quarkfast.statistics import StatisticsRequest, TensorStatistics, merge_statistics

__all__ = ["ParallelRunner"]

# A part is sent to a worker whole: this much is held for each part on its way.
_PART_BYTES = 64 << 20
_PART_RUNS = 16

_Result = tuple[list[TensorStatistics], int, int]


class ParallelRunner:
    """Runs parts of the samples in an executor. Runs are those of one process, so the statistics are too.

    Attributes:
        runs: Number of runs whose statistics have arrived, all from the first on.
        samples: Number of their samples.
        whole: True: parts are taken whole or not at all.
    """

    whole = True

    def __init__(
        self,
        executor: Executor,
        model: ir.Model,
        request: StatisticsRequest,
        threads: int | None = None,
        total: int | None = None,
    ) -> None:
        """Takes a prepared model; `total` is the number of samples, where it is known."""
        self.runs = self.samples = 0
        self._executor, self._request, self._threads = executor, request, threads
        proto, folder = proto_and_folder(model)
        self._model = proto.SerializeToString(deterministic=True), folder
        self._workers = os.cpu_count() or 1
        self._rows = None if total is None else math.ceil(total / self._workers)
        self._merged: list[TensorStatistics] = []

    def run(self, feeds: Iterator[Feed], number: int) -> Iterator[None]:
        """Runs the model on `feeds`, yields as parts arrive, and gives up those on their way when it is closed.

        Args:
            feeds: Checked feeds.
            number: Which one the first is, counted from 1.

        Raises:
            CalibrationError: If the model cannot be run on a feed, or a worker is lost.
        """
        waiting: deque[Future[_Result]] = deque()
        try:
            for part in _cut(feeds, self._rows):
                while len(waiting) > self._workers:
                    self._take(waiting.popleft())
                    yield
                with UserCode("executor: expected it to take work"):
                    waiting.append(
                        self._executor.submit(_observe, self._model, self._request, self._threads, part, number)
                    )
                number += len(part)
            while waiting:
                self._take(waiting.popleft())
                yield
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Does nothing: workers end their sessions themselves."""

    def statistics(self) -> list[TensorStatistics]:
        """Returns what has arrived, in the order of the tensors; nothing before any part has."""
        return self._merged

    def _take(self, future: Future[_Result]) -> None:
        with UserCode("executor: expected a worker's statistics"):
            statistics, runs, samples = future.result()
        with uninterrupted():
            self._merged = merge_statistics([self._merged, statistics]) if self._merged else statistics
            self.runs += runs
            self.samples += samples


def _observe(
    model: tuple[bytes, Path | None],
    request: StatisticsRequest,
    threads: int | None,
    feeds: list[Feed],
    number: int,
) -> _Result:
    """Runs in a worker, which sees the folder too in which the weights of a large model lie."""
    data, folder = model
    loaded = ir.from_proto(onnx.load_model_from_string(data))
    if folder is not None:
        ir.external_data.set_base_dir(loaded.graph, folder)
    observer = Observer(loaded, request, threads)
    for _ in observer.run(feeds, number):
        pass
    observer.close()
    return observer.statistics(), observer.runs, observer.samples


def _cut(feeds: Iterator[Feed], rows: int | None) -> Iterator[list[Feed]]:
    """Yields lists of feeds of about `rows` rows, but no more than a part may hold."""
    part: list[Feed] = []
    size = seen = 0
    for feed in feeds:
        part.append(feed)
        size += sum(array.nbytes for array in feed.values())
        seen += rows_of(feed)
        if size >= _PART_BYTES or (seen >= rows if rows else len(part) >= _PART_RUNS):
            yield part
            part, size, seen = [], 0, 0
    if part:
        yield part
