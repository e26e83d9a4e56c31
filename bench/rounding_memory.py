"""What weight rounding takes: ``python -m bench.rounding_memory WORK SHARED MINILM TOKENIZER MODEL...``.

The models and their calibration samples, 64 at most, are those of `bench.data.subjects`; the samples are written to
``WORK/samples/MODEL.npz``. For each model a process runs them in plain onnxruntime, one row a run (`bench.plain`), and
another quantizes to A8W8 with ``rounding="descent"`` from Python. Prints the seconds of the clock and the peak memory
of both, the largest Gram matrix of a layer, and twice the memory of inference and that matrix; `--preset` names another
preset. Megabytes are 2^20 bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.end_to_end import run

PLAIN = Path(__file__).with_name("plain.py")

JOB = "import sys, quarkfast; quarkfast.quantize(*sys.argv[1:4], sys.argv[4], rounding='descent')"

SAMPLES = 64


def largest_gram(path: Path) -> float:
    """Returns the megabytes of the largest Gram matrix of float64 of the prepared model, all groups of a layer."""
    from quarkfast.graph.load import load_model
    from quarkfast.pipeline.prepare import prepare
    from quarkfast.reconstruction import linear_layers

    shapes = [layer.matrix_shape for layer in linear_layers(prepare(load_model(path), 13))]
    return max(groups * inputs * inputs * 8 for groups, _, inputs in shapes) / 2**20


def describe(given: argparse.Namespace, name: str) -> None:
    """Writes the samples of a model, and prints its path and its largest Gram matrix."""
    import numpy as np

    from bench.data.subjects import subjects

    subject = subjects(given.shared, given.minilm, given.tokenizer)[name]()
    given.work.joinpath("samples").mkdir(parents=True, exist_ok=True)
    rows = {key: values[:SAMPLES] for key, values in subject.calibration.items()}
    np.savez(given.work / "samples" / f"{name}.npz", **rows)
    print(subject.model, largest_gram(subject.model))


def main() -> None:
    """Prints the table. Samples are written by a process of its own, as the peak of a child counts its parent's."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--preset", default="A8W8")
    parser.add_argument("--describe", action="store_true", help="write the samples of one model and end")
    given = parser.parse_args()
    if given.describe:
        describe(given, given.models[0])
        return
    print("| model | inference | descent | peak | largest Gram matrix | twice inference and that |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for name in given.models:
        options = [*sys.argv[1:5], name, "--describe"]
        command = [sys.executable, "-m", "bench.rounding_memory", *options]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        model, gram = told[0], float(told[1])
        data, output = given.work / "samples" / f"{name}.npz", given.work / f"{name}_rounded.onnx"
        plain = run([sys.executable, str(PLAIN), model, str(data)])
        found = run([sys.executable, "-c", JOB, model, str(output), given.preset, str(data)])
        cells = f"{plain.wall:.1f} s, {plain.megabytes:.0f} MB | {found.wall:.1f} s | {found.megabytes:.0f} MB"
        print(f"| {name} | {cells} | {gram:.1f} MB | {2 * plain.megabytes + gram:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
