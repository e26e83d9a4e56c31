"""Calibration beside its peers: ``python -m bench.calibration_peers SHARED MODEL COUNT ORT_PYTHON QUARK_PYTHON``.

MODEL is the name of a CIFAR-10 model in SHARED/models or the path of a sentence encoder, as for `bench.calibration`.
Every contestant gets the prepared model (BatchNormalization folded), the same COUNT samples in batches of 32, and the
operator types that A8W8 quantizes; onnxruntime.quantization and Quark run in their own environments. Each job is a
fresh process: seconds from opening the calibrator to all ranges, imports left out, and the peak resident memory of the
process. "inference alone" runs the model and nothing else. Prints a Markdown table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 32
METHODS = ("MinMax", "Percentile", "Entropy")
JOBS = [
    ("onnxruntime, inference alone", "ort", "plain"),
    *((f"quarkfast {name}", "own", name) for name in (*METHODS, "MinMSE")),
    *((f"onnxruntime {name}", "ort", name) for name in METHODS),
    *((f"Quark {name}", "quark", name) for name in (*METHODS, "MinMSE")),
]


class Reader:
    """What all of them read from: `get_next` until None."""

    def __init__(self, folder: Path) -> None:
        """Reads the samples of the job in `folder`."""
        with np.load(folder / "samples.npz") as data:
            self.arrays = dict(data)
        self.size = len(next(iter(self.arrays.values())))
        self.start = 0

    def get_next(self) -> dict[str, Any] | None:
        """Returns the next batch."""
        if self.start >= self.size:
            return None
        rows = slice(self.start, self.start + BATCH)
        self.start += BATCH
        return {name: array[rows] for name, array in self.arrays.items()}

    def reset_iter(self) -> None:
        """Begins again, as Quark asks for."""
        self.start = 0

    def __len__(self) -> int:
        """Returns the number of batches."""
        return -(-self.size // BATCH)


def plain(folder: Path, _: str) -> Callable[[], object]:
    """Inference alone, in the environment of onnxruntime.quantization."""
    import onnxruntime

    def job() -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
        reader = Reader(folder)
        while (feed := reader.get_next()) is not None:
            session.run(None, feed)

    return job


def quarkfast_job(folder: Path, method: str) -> Callable[[], object]:
    """Statistics, and a range of every tensor."""
    import onnxruntime  # noqa: F401

    import quarkfast
    import quarkfast.calibration
    import quarkfast.pipeline.prepare
    import quarkfast.quantization
    from quarkfast.config import TensorSpec
    from quarkfast.ranges.estimate import estimate_ranges

    scale = "power_of_two" if method == "MinMSE" else "float32"
    spec = TensorSpec("int8", method=method.lower(), scale=scale)

    def job() -> None:
        needs = method != "MinMax"
        found = quarkfast.calibrate(
            folder / "model.onnx", Reader(folder), preset="A8W8", histogram=needs, threads=2
        ).tensors
        estimate_ranges(found, dict.fromkeys(found, spec))

    return job


def onnxruntime_job(folder: Path, method: str) -> Callable[[], object]:
    """The calibrators of onnxruntime.quantization."""
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    types = json.loads((folder / "types.json").read_text())

    def job() -> None:
        calibrator = create_calibrator(
            folder / "model.onnx", types, str(folder / "augmented.onnx"), getattr(CalibrationMethod, method)
        )
        calibrator.collect_data(Reader(folder))
        calibrator.compute_data()

    return job


def quark_job(folder: Path, method: str) -> Callable[[], object]:
    """Quark's calibration by itself."""
    from onnxruntime.quantization.calibrate import CalibrationMethod
    from quark.onnx.calibration.interface import run_calibration
    from quark.onnx.calibration.methods import PowerOfTwoMethod

    types = json.loads((folder / "types.json").read_text())
    chosen = PowerOfTwoMethod.MinMSE if method == "MinMSE" else getattr(CalibrationMethod, method)
    return lambda: run_calibration(str(folder / "model.onnx"), Reader(folder), types, calibrate_method=chosen)


RUNNERS = {"own": quarkfast_job, "ort": onnxruntime_job, "quark": quark_job}


def child(folder: Path, kind: str, method: str) -> None:
    """Runs one job and prints seconds, seconds of processors, and peak megabytes as the last line."""
    job = plain(folder, method) if method == "plain" else RUNNERS[kind](folder, method)
    start, used = time.perf_counter(), time.process_time()
    job()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    status = Path("/proc/self/status").read_text()
    print(json.dumps([seconds, used, int(status.partition("VmHWM:")[2].split()[0]) / 1024]))


def stage(shared: Path, model: str, count: int, folder: Path) -> None:
    """Writes the prepared model, the samples and the operator types."""
    from bench.calibration import feeds_of
    from quarkfast.graph.load import load_model
    from quarkfast.graph.save import serialize
    from quarkfast.pipeline.prepare import prepare
    from quarkfast.pipeline.resolve import resolve
    from quarkfast.quantization import place

    path = Path(model) if Path(model).exists() else shared / "models" / f"{model}.onnx"
    prepared = prepare(load_model(path), 13)
    types = sorted(set(place(prepared, *resolve("A8W8", {})).quantized.values()))
    (folder / "types.json").write_text(json.dumps(types))
    (folder / "model.onnx").write_bytes(serialize(prepared))
    feeds = list(feeds_of(shared, model, count))
    np.savez(folder / "samples.npz", **{name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]})


def measured(folder: Path, python: str, kind: str, method: str) -> str:
    """Returns the cells of one row; a job that fails says so."""
    command = [python, str(Path(__file__).resolve()), "--job", str(folder), kind, method]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if kind == "own":
        import quarkfast

        environment["PYTHONPATH"] = str(Path(quarkfast.__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:100]} | | |"
    seconds, used, megabytes = json.loads(done.stdout.splitlines()[-1])
    return f"{seconds:.2f} | {used:.2f} | {megabytes:.0f} |"


def main() -> None:
    """Prints the table, or in a child process the measurement of one job."""
    if sys.argv[1] == "--job":
        child(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
        return
    shared, model, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pythons = {"own": sys.executable, "ort": sys.argv[4], "quark": sys.argv[5]}
    with tempfile.TemporaryDirectory() as folder:
        stage(shared, model, count, Path(folder))
        print(f"| {Path(model).stem}, {count} samples | s | CPU s | peak MB |\n| :-- | --: | --: | --: |", flush=True)
        for name, kind, method in JOBS:
            print(f"| {name} | {measured(Path(folder), pythons[kind], kind, method)}", flush=True)


if __name__ == "__main__":
    main()
