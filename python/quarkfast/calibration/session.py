"""Calibration sessions: a model with observers, run on feeds, whose interrupts wait for a moment that suits."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from quarkfast import _core, ort
from quarkfast.calibration.data import Feed
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.calibration.nchwc_layout import observed_session
from quarkfast.deferred import ir
from quarkfast.errors import CalibrationError, ModelError
from quarkfast.graph.external_constants import proto_and_folder
from quarkfast.graph.subgraphs import end_at
from quarkfast.statistics import StatisticsRequest, TensorStatistics
from quarkfast.statistics.tensor import read_collector

__all__ = ["Observer", "observe", "uninterrupted"]

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets the block finish before an interrupt from the keyboard is raised; a second one is raised at once.

    The same holds for the other signals that end a process, where they raise something too. They reach the main thread
    alone, so in other threads there is nothing to do.
    """
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    previous = {number: handler for number, handler in found.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not previous:
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            previous[number](number, frame)
        waiting.append((number, frame))

    for number in previous:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if waiting:
            previous[waiting[0][0]](*waiting[0])


class Observer:
    """A session that runs a model and adds what it sees to statistics.

    An Observe operator behind each tensor passes it through without a copy and adds it to the statistics of its slot,
    so memory stays that of inference however many samples there are.

    Attributes:
        runs: Number of runs that finished.
        samples: Number of their samples (rows of the first input).
        whole: Whether every run that began has finished; otherwise the statistics hold part of one.
    """

    def __init__(
        self, model: ir.Model, request: StatisticsRequest, threads: int | None = None, *, alone: bool = False
    ) -> None:
        """Opens the session.

        Args:
            model: A prepared model; it is not changed.
            request: What to gather of which float tensors, those of bodies by path.
            threads: Threads of ONNX Runtime within an operator; None leaves the choice to it.
            alone: Whether the model runs no further than these tensors.

        Raises:
            ModelError: If ONNX Runtime rejects the model.
            UnsupportedError: If it is too large for one protobuf, and its constants are not in files of one folder.
        """
        self.runs = self.samples = 0
        self.whole = True
        self._request = request
        wanted = request.tensors.values()
        histogram, moments = ([getattr(each, name) for each in wanted] for name in ("histogram", "moments"))
        self._collector = _core.Collector(len(request), histogram=histogram, moments=moments)
        proto, folder = proto_and_folder(model)
        if alone:
            end_at(proto, request.tensors)
        temporary = Path(tempfile.mkdtemp(prefix="quarkfast_"))
        self._remove = weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
        axes = {slot: each.channel_axis for slot, each in enumerate(request.tensors.values())}
        known = {slot: axis for slot, axis in axes.items() if axis is not None}
        try:
            self._session = observed_session(
                proto, tuple(request), self._collector.id, threads, temporary, folder, known
            )
        except BaseException:
            self._remove()  # the traceback keeps this object alive
            raise
        del proto
        _core.release_memory()

    def run(self, feeds: Iterable[Feed], number: int = 1) -> Iterator[None]:
        """Runs the model on each of `feeds` and yields after each.

        Args:
            feeds: Checked feeds.
            number: Which one the first is, counted from 1, for messages.

        Raises:
            CalibrationError: If ONNX Runtime cannot run the model on a feed.
        """
        for count, feed in enumerate(feeds, number):
            self._run(feed, count)
            yield

    def _run(self, feed: Feed, number: int) -> None:
        # An interrupt waits for the end, so that the statistics hold whole runs.
        with uninterrupted():
            self.whole = False
            try:
                # All outputs are fetched and dropped: ONNX Runtime runs every node whatever is asked for.
                ort.run(self._session, feed)
            except ModelError as error:
                raise CalibrationError(f"calibration data: sample {number}: {error}") from error
            self.whole = True
            self.runs += 1
            self.samples += rows_of(feed)

    def close(self) -> None:
        """Ends the session, and gives its memory and its files back; what was seen stays."""
        self._session = None
        self._remove()
        _core.release_memory()

    def statistics(self) -> list[TensorStatistics]:
        """Returns what was seen so far, in the order of the tensors."""
        return [read_collector(self._collector, slot, each) for slot, each in enumerate(self._request.tensors.values())]


def observe(
    model: ir.Model,
    request: StatisticsRequest,
    feeds: Iterable[Feed],
    threads: int | None = None,
    report: Callable[[int], None] | None = None,
) -> tuple[dict[str, TensorStatistics], int]:
    """Runs `model` on `feeds` and returns the statistics of each tensor of `request`, and the number of samples.

    What lies behind all of these tensors is not run.

    Args:
        model: A prepared model; it is not changed.
        request: What to gather of which float tensors, those of bodies by path.
        feeds: Checked feeds.
        threads: Threads of ONNX Runtime within an operator; None leaves the choice to it.
        report: Called after each run with the number of samples so far: rows of the first input.

    Raises:
        CalibrationError: If ONNX Runtime cannot run the model on a feed.
    """
    observer = Observer(model, request, threads, alone=True)
    for _ in observer.run(feeds):
        if report is not None:
            report(observer.samples)
    observer.close()
    return dict(zip(request, observer.statistics(), strict=True)), observer.samples
