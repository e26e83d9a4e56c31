"""Models that AMD Quark wrote, run with its operators and with ours: ``python -m bench.quark_models FOLDER LIBRARY``.

FOLDER holds ``<model>-<format>.onnx`` as Quark wrote them and ``<model>.npz`` with an array for each input, samples
along axis 0. LIBRARY is Quark's operator library (``quark.onnx.get_library_path("CPU")``). Outputs for all samples are
compared byte by byte; latencies are those of the first sample, one thread, least of rounds in turn. Prints how many
times faster ours is, formats down and models across, and the numbers of differing values where outputs differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.two_libraries import LIBRARIES, fastest, open_session, paths


def bits(values: Any) -> Any:
    """The bit patterns of an array."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def differing(ours: list[Any], theirs: list[Any]) -> tuple[int, int, float]:
    """Values that differ in a bit, values in all, and the largest difference."""
    pairs = list(zip(ours, theirs, strict=True))
    count = sum(int((bits(a) != bits(b)).sum()) for a, b in pairs)
    most = max(float(np.nanmax(np.abs(a.astype(np.float64) - b), initial=0)) for a, b in pairs)
    return count, sum(a.size for a, _ in pairs), most


def cell(model: Path, samples: Mapping[str, Any], libraries: Mapping[str, str], seconds: float) -> str:
    """How many times faster ours is, and how many values differ, if any do."""
    sessions = {name: open_session(model, library) for name, library in libraries.items()}
    ours, theirs = (sessions[name].run(None, samples) for name in LIBRARIES)
    count, values, most = differing(ours, theirs)
    first = {name: x[:1] for name, x in samples.items()}
    best = fastest({name: lambda s=s: s.run(None, first) for name, s in sessions.items()}, seconds)
    mine, other = (best[name] for name in LIBRARIES)
    return f"{other / mine:.1f}" + (f", {count} of {values} differ, by at most {most:.3g}" if count else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quark_models", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("library", type=Path, help="Quark's operator library")
    parser.add_argument("--seconds", type=float, default=2, help="time for the latencies of each model")
    options = parser.parse_args()
    cells: dict[str, dict[str, str]] = {}
    for model in sorted(options.folder.glob("*-*.onnx")):
        name, _, number_format = model.stem.partition("-")
        with np.load(options.folder / f"{name}.npz") as file:
            samples = dict(file)
        cells.setdefault(number_format, {})[name] = cell(model, samples, paths(options.library), options.seconds)
    models = sorted({name for found in cells.values() for name in found})
    print(f"| format | {' | '.join(models)} |", f"| :-- |{' --: |' * len(models)}", sep="\n")
    for number_format, found in cells.items():
        print(f"| {number_format} | {' | '.join(found.get(name, '') for name in models)} |")


if __name__ == "__main__":
    main()
