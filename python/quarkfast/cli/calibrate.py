"""The verb `calibrate`: a model and samples in, statistics out."""

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import DATA_HELP, AsJson, Force, ModelPath, ShowImages, as_given, with_options
from quarkfast.cli.quantize import beside
from quarkfast.cli.shown_images import show_first_images
from quarkfast.errors import OutputError


@with_options(("target", "samples", "batch_size", "preprocess"))
def calibrate(
    model: ModelPath,
    calibration_data: Annotated[str, typer.Option("--calibration-data", metavar="PATH", help=DATA_HELP)],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write; MODEL_calibration.json by default."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("-p", "--preset", help="Whose tensors to observe; those of every preset by default.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Processes to run the model in.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each process; all by default.")] = None,
    max_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="Most memory to take, such as 2GB.")] = None,
    moments: Annotated[bool, typer.Option("--moments", help="Gather mean and variance too.")] = False,
    show: ShowImages = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was cut short in the output.")] = False,
    force: Force = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Gather the statistics of a model's activations once, for any number of quantizations.

    What was gathered is kept in the output when the run is interrupted or fails, and --resume goes on from there.
    """
    check_environment()
    path = output or beside(model, "calibration.json")
    if path.is_file() and not force and not resume:
        raise OutputError(
            f"output: expected a new file, got {str(path)!r}, which exists; --force replaces it, --resume goes on"
        )
    if show is not None:
        show_first_images(show, model, calibration_data, options)
    start = time.perf_counter()
    given: dict[str, Any] = {"preset": preset, "moments": moments, "threads": threads, "max_memory": max_memory}
    given |= {"resume": resume, **as_given(options)}
    with (
        _saying_what_is_kept(path),
        _executor(processes) as executor,
        console.warnings_as_lines(),
        console.stages() as progress,
    ):
        result = quarkfast.calibrate(model, calibration_data, path, executor=executor, progress=progress, **given)
    _report(model, path, result, time.perf_counter() - start, as_json)
    return ExitCode.OK


@contextmanager
def _saying_what_is_kept(path: Path) -> Iterator[None]:
    """Says how many samples are in the output where the run is cut short."""
    before = _stamp(path)
    try:
        yield
    except (KeyboardInterrupt, quarkfast.QuarkfastError):
        if _stamp(path) != before:
            kept = quarkfast.Calibration.load(path).samples
            line = f"quarkfast: {kept} samples are kept in {path}; --resume goes on from there"
            console.show_line(line, error=True)
        raise


@contextmanager
def _executor(processes: int) -> Iterator[Executor | None]:
    if processes == 1:
        yield None
        return
    # Spawned, because a fork of a process that has threads (ONNX Runtime's) may hang.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as executor:
        yield executor


def _stamp(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.is_file() else None


def _report(model: Path, path: Path, result: "quarkfast.Calibration", seconds: float, as_json: bool) -> None:
    facts = describe(result) | {"model": str(model), "output": str(path), "total_seconds": seconds}
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    console.show_facts(rows(facts))


def describe(result: "quarkfast.Calibration") -> dict[str, Any]:
    """Return what there is to say about a calibration, for JSON."""
    seen = result.ranges.values()
    return {
        "samples": result.samples,
        "runs": result.runs,
        "tensors": len(result.tensors),
        "values": sum(each.count for each in seen),
        "not_finite": sum(each.count - each.finite for each in seen),
        "random": result.random,
    }


def rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the same as rows of a table."""
    shown = [("model", facts["model"])] if "model" in facts else []
    shown.append(("output", facts["output"]))
    shown.append(("calibrated on", f"{facts['samples']} {'random ' * facts['random']}samples in {facts['runs']} runs"))
    shown.append(("observed", f"{facts['tensors']} tensors, {facts['values']} values"))
    if facts["not_finite"]:
        shown.append(("not finite", f"{facts['not_finite']} values, left out of ranges"))
    if "total_seconds" in facts:
        rate = facts["samples"] / facts["total_seconds"]
        shown.append(("total", f"{facts['total_seconds']:.2f} s, {rate:.0f} samples/s"))
    return shown
