"""What observing costs on top of inference, and methods on top of that: ``python -m bench.calibration SHARED MODEL``.

MODEL is the name of a CIFAR-10 model in SHARED/models, or the path of a sentence encoder such as MiniLM (inputs
``input_ids`` and ``attention_mask``; seeded random tokens, 48 a sentence). Every job runs the prepared model
(BatchNormalization folded) in batches of 32, from the model in memory to the last result, with one thread or as many as
QUARKFAST_BENCH_THREADS says. "ranges" has an Observe operator behind every activation that the preset A8W8 quantizes,
"full" counts histograms as well. Times are least ones of rounds in which the jobs take turns; memory is the peak of a
fresh process each. Then the seconds that each method takes to derive all ranges. Prints two Markdown tables.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.accuracy import normalized
from quarkfast import ort
from quarkfast.calibration import observe
from quarkfast.config import TensorSpec
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import place
from quarkfast.ranges.estimate import estimate_ranges
from quarkfast.ranges.registry import METHODS
from quarkfast.statistics import StatisticsRequest

BATCH = 32
SAMPLES = (16, 64, 128, 256, 512)
ROUNDS = 9
THREADS = int(os.environ.get("QUARKFAST_BENCH_THREADS", "1"))
SPECS = {
    "int8": TensorSpec("int8"),
    "uint8": TensorSpec("uint8", symmetric=False),
    "int8, power of two": TensorSpec("int8", scale="power_of_two"),
}


def feeds_of(shared: Path, model: str, count: int) -> Iterator[Mapping[str, Any]]:
    """Yields `count` samples in batches; none is held beyond its batch."""
    starts = range(0, count, BATCH)
    if Path(model).exists():
        ids = np.random.default_rng(0).integers(1000, 20000, (count, 48))
        for part in (ids[start : start + BATCH] for start in starts):
            yield {"input_ids": part, "attention_mask": np.ones_like(part)}
        return
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        pixels = data["x"][:count]
    for start in starts:
        yield {"input": normalized(pixels[start : start + BATCH])}


def jobs(shared: Path, model: str, count: int, hold: bool = True) -> tuple[dict[str, Callable[[], Any]], int]:
    """Returns plain inference and observation as functions, and the number of observed tensors.

    Samples are held in memory, so that times are those of the model alone, or made as they are read.
    """
    held = list(feeds_of(shared, model, count)) if hold else None

    def feeds() -> Iterator[Mapping[str, Any]]:
        return feeds_of(shared, model, count) if held is None else iter(held)

    path = Path(model) if Path(model).exists() else shared / "models" / f"{model}.onnx"
    prepared = prepare(load_model(path), 13)
    tensors = place(prepared, *resolve("A8W8", {})).observed

    def plain() -> None:
        session = ort.inference_session(serialize(prepared), ort.session_options(threads=THREADS))
        for feed in feeds():
            ort.run(session, feed)

    def observed(histogram: bool) -> Any:
        return observe(prepared, StatisticsRequest.of(tensors, histogram=histogram), feeds(), THREADS)

    work = {"plain": plain, "ranges": partial(observed, False), "full": partial(observed, True)}
    return work, len(tensors)


def seconds(job: Callable[[], object]) -> float:
    """Returns the wall time of one call."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def peak_megabytes(shared: Path, model: str, count: int, job: str) -> float:
    """Returns the peak resident memory of a process that does nothing but prepare and run one job."""
    command = [sys.executable, "-m", "bench.calibration", str(shared), model, str(count), job]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def costs(shared: Path, model: str) -> Iterator[str]:
    """Yields the rows of the first table."""
    yield "| samples | tensors | plain s | ranges s | ratio | full s | ratio | plain MB | full MB | ratio |"
    yield "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"
    for count in SAMPLES:
        work, tensors = jobs(shared, model, count)
        rounds = [{name: seconds(job) for name, job in work.items()} for _ in range(ROUNDS)]
        plain, ranges, full = (min(each[name] for each in rounds) for name in work)
        least, most = (peak_megabytes(shared, model, count, name) for name in ("plain", "full"))
        yield (
            f"| {count} | {tensors} | {plain:.3f} | {ranges:.3f} | {ranges / plain:.2f} | {full:.3f} "
            f"| {full / plain:.2f} | {least:.0f} | {most:.0f} | {most / least:.2f} |"
        )


def derivations(shared: Path, model: str) -> Iterator[str]:
    """Yields the rows of the second table: each method over all tensors, from statistics that are at hand."""
    work, tensors = jobs(shared, model, 64)
    found, _ = work["full"]()
    yield f"| seconds for all {tensors} tensors | {' | '.join(SPECS)} |"
    yield "| :-- |" + " --: |" * len(SPECS)
    for method in METHODS:
        specs = [replace(spec, method=method) for spec in SPECS.values()]
        times = [
            min(seconds(partial(estimate_ranges, found, dict.fromkeys(found, spec))) for _ in range(5))
            for spec in specs
        ]
        yield f"| {method} | {' | '.join(f'{each:.4f}' for each in times)} |"


def main() -> None:
    """Prints the tables, or in a child process the memory of one job."""
    shared, model = Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        jobs(shared, model, int(sys.argv[3]), hold=False)[0][sys.argv[4]]()
        # Not getrusage: its maximum counts the parent's memory too, which the child had for a moment before exec.
        status = Path("/proc/self/status").read_text()
        print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        return
    for lines in (derivations(shared, model), costs(shared, model)):
        for line in lines:
            print(line, flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
