"""One calibration run: here or in an executor, within bounds of memory, and never lost."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from quarkfast import ort
from quarkfast.calibration.data import Feed, Samples
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.calibration.memory import live_bytes, readable, resident_bytes, rows_within_budget, weight_bytes
from quarkfast.calibration.parallel_runner import ParallelRunner
from quarkfast.calibration.session import Observer
from quarkfast.deferred import ir
from quarkfast.errors import CalibrationError, OutputError
from quarkfast.graph.external_constants import stays_in_files
from quarkfast.statistics import Calibration, StatisticsRequest, merge

__all__ = ["CalibrationRun", "calibrate_prepared", "fit_rows"]

_log = logging.getLogger("quarkfast")

# Of a histogram: 4096 counts of 8 bytes, in the collector and once more when they are read.
_HISTOGRAM_BYTES = 2 * 4096 * 8
# ONNX Runtime parses the serialized model and copies each weight into its own memory. What it reads from files itself
# is in memory as it lies there, and as it is packed for products.
_COPIES_OF_WEIGHTS, _COPIES_FROM_FILES = 3, 2


@dataclass(frozen=True)
class CalibrationRun:
    """What to observe, and how.

    Attributes:
        model: A prepared model.
        request: What to gather of which tensors.
        key: Hash of the model and of the settings that change what it computes.
        batch_size: As it was asked for.
        threads: Threads of ONNX Runtime within an operator, in each process; None leaves the choice to it.
        executor: Where to run; None means in this process.
        max_memory: Most bytes that this process may hold, or None.
        output: Where to write the result, and what was gathered if the run is cut short.
        resume: Whether to go on with what was cut short there.
        live: `live_bytes`, or what remembers its answers.
    """

    model: ir.Model
    request: StatisticsRequest
    key: str
    batch_size: int | None = None
    threads: int | None = None
    executor: Executor | None = None
    max_memory: int | None = None
    output: Path | None = None
    resume: bool = False
    live: Callable[[ir.Model, Feed], int] = live_bytes

    def fixed_bytes(self) -> int:
        """Returns about how many bytes this process will hold while it runs the model, activations not counted."""
        ort.session_options()  # onnxruntime itself takes 18 MB; loaded here, they count as held
        copies = _COPIES_FROM_FILES if stays_in_files(self.model) else _COPIES_OF_WEIGHTS
        weights = copies * weight_bytes(self.model)
        statistics = sum(each.histogram for each in self.request.tensors.values()) * _HISTOGRAM_BYTES
        return (resident_bytes() or 0) + weights + statistics


def calibrate_prepared(run: CalibrationRun, samples: Samples, report: Callable[[int], None]) -> Calibration:
    """Runs the model over samples and returns the statistics that were asked for.

    Args:
        run: What to gather, of which model, and how.
        samples: Opened data.
        report: Called with the number of samples that are done.

    Raises:
        CalibrationError: If the model cannot be run on a sample, reading fails, the memory does not suffice, or what is
            at `run.output` cannot be resumed. What was gathered by then is kept there.
        OutputError: If nothing can be written to `run.output`. What was gathered is then in a temporary folder, which
            the sentence names.
    """
    fit_rows(run, samples)
    before = _earlier(run)
    start, seen = (before.runs, before.samples) if before else (0, 0)
    runner = _runner(run, samples)
    feeds = _unseen(iter(samples), seen)
    complete = False
    if seen:
        report(seen)
    try:
        for _ in runner.run(feeds, start + 1):
            report(seen + runner.samples)
            _check_memory(run)
        complete = True
    finally:
        runner.close()
        # Part of a run would count some tensors and not others, so then nothing new is kept.
        if run.output is not None and not complete and runner.whole and runner.runs:
            _keep(_result(run, samples, runner, before, False), run.output)
    result = _result(run, samples, runner, before, True)
    if run.output is not None:
        _keep(result, run.output)
    return result


def _unseen(feeds: Iterator[Feed], seen: int) -> Iterator[Feed]:
    """Yields what comes after the first `seen` samples: runs may have had another number of rows."""
    for feed in feeds:
        rows = rows_of(feed)
        if not seen or seen < rows:
            yield {name: array[seen:] for name, array in feed.items()} if seen else feed
        seen = max(0, seen - rows)


def _keep(calibration: Calibration, output: Path) -> None:
    try:
        calibration.save(output)
    except OutputError as error:
        raise OutputError(f"{error}; {_rescue(calibration, output)}") from error


def _rescue(calibration: Calibration, output: Path) -> str:
    """Writes to a new temporary folder what the output does not take, and says where: it may be the work of hours."""
    try:
        elsewhere = calibration.save(Path(tempfile.mkdtemp(prefix="quarkfast_")) / output.name)
    except (OSError, OutputError):
        return "make room there, there is none for temporary files either"
    return f"what was gathered is at {str(elsewhere)!r}"


def _runner(run: CalibrationRun, samples: Samples) -> Observer | ParallelRunner:
    if run.executor is None:
        return Observer(run.model, run.request, run.threads)
    return ParallelRunner(run.executor, run.model, run.request, run.threads, samples.total)


def _result(
    run: CalibrationRun, samples: Samples, runner: Observer | ParallelRunner, before: Calibration | None, complete: bool
) -> Calibration:
    tensors = dict(zip(run.request, runner.statistics(), strict=True)) if runner.runs else {}
    found = Calibration(tensors, run.key, runner.samples, runner.runs, samples.random, run.batch_size, complete)
    if before is None:
        return found
    merged = merge([before, found]) if runner.runs else before
    return replace(merged, complete=complete)


def _earlier(run: CalibrationRun) -> Calibration | None:
    """Returns what an earlier run kept, after making sure that this one can go on with it."""
    if not run.resume or run.output is None or not run.output.exists():
        return None
    before = Calibration.load(run.output)
    where = f"resume: expected a calibration at {str(run.output)!r}"
    if before.complete:
        raise CalibrationError(f"{where} that was cut short, got a complete one of {before.samples} samples; use it")
    if before.key != run.key or list(before.tensors) != list(run.request):
        raise CalibrationError(f"{where} of this model and these settings, got one of others; begin anew")
    if before.batch_size != run.batch_size:
        raise CalibrationError(f"{where} with batch_size {run.batch_size}, got one with {before.batch_size}")
    return before


def fit_rows(run: CalibrationRun, samples: Samples) -> None:
    """Chooses the rows of a run where nobody has, within the budget; cuts them to the memory, or refuses."""
    limit = run.max_memory
    if limit is None and not samples.unsized and not _log.isEnabledFor(logging.INFO):
        return
    rows, live = rows_of(samples.first), run.live(run.model, samples.first)
    fit = rows_within_budget(live // rows) if samples.unsized else rows
    if limit is not None or _log.isEnabledFor(logging.INFO):
        fit = _fit_limit(run, samples, fit, live)
    if fit != rows:
        samples.resize(fit)


def _fit_limit(run: CalibrationRun, samples: Samples, wanted: int, live: int) -> int:
    """Returns how many rows a run may have of those that are wanted, given the bytes that the first feed keeps live."""
    rows, limit, fixed = rows_of(samples.first), run.max_memory, run.fixed_bytes()
    fit = wanted
    if limit is not None and fixed + live * wanted // rows > limit:
        fit = rows * (limit - fixed) // max(live, 1)
        if fit < 1 or not samples.resizable:
            least = fixed + (live // rows if samples.resizable else live)
            raise CalibrationError(
                f"max_memory: expected at least {readable(least)} for this model, got {readable(limit)}"
                + ("" if samples.resizable else "; give smaller samples, the model does not let them be cut")
            )
    forecast = fixed + live * fit // rows
    _log.info("calibration: %d tensors, about %s of memory", len(run.request), readable(forecast))
    return fit


def _check_memory(run: CalibrationRun) -> None:
    held = resident_bytes() if run.max_memory is not None else None
    if held is not None and run.max_memory is not None and held > run.max_memory:
        raise CalibrationError(
            f"max_memory: expected at most {readable(run.max_memory)}, got {readable(held)}; use a smaller batch_size"
        )
