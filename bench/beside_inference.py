"""What compare and evaluate take beside inference: ``python -m bench.beside_inference FLOAT QUANTIZED DATA.npz ROWS``.

Whole processes, imports included: plain onnxruntime runs both models in default sessions, ROWS samples a run, one model
after the other, and once more with both sessions open; then the commands do. Idle threads of ONNX Runtime sleep
everywhere. Prints processor seconds and peak memory, the least of `--rounds`, and each as a multiple of the first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.end_to_end import Cost, run

PLAIN = """
import sys
import numpy as np
import onnxruntime
how, rows, data, *models = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
with np.load(data) as file:
    samples = dict(file)
starts = range(0, len(next(iter(samples.values()))), int(rows))
kept = []
for model in models:
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for start in starts:
        session.run(None, {name: values[start : start + int(rows)] for name, values in samples.items()})
    kept += [session] if how == "together" else []
    del session
"""


def jobs(reference: Path, model: Path, data: Path, rows: int) -> dict[str, list[str]]:
    """Returns the command lines, by name."""
    models = [str(reference), str(model)]
    plain = [sys.executable, "-c", PLAIN]
    ours = [sys.executable, "-m", "quarkfast"]
    samples = ["--data", str(data), "--batch-size", str(rows)]
    return {
        "inference, one after the other": [*plain, "apart", str(rows), str(data), *models],
        "inference, both open": [*plain, "together", str(rows), str(data), *models],
        "quarkfast compare": [*ours, "compare", *models, *samples],
        "quarkfast evaluate": [*ours, "evaluate", *models, *samples],
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.beside_inference", description=__doc__)
    for name in ("reference", "model", "data"):
        parser.add_argument(name, type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[Cost]] = {}
    for _ in range(given.rounds):
        for name, job in jobs(given.reference, given.model, given.data, given.rows).items():
            found.setdefault(name, []).append(run(job))
    best = {name: Cost(*(min(values) for values in zip(*costs, strict=True))) for name, costs in found.items()}
    plain = next(iter(best.values()))
    print("| process | CPU s | of inference | peak MB | of inference |")
    print("| :-- | --: | --: | --: | --: |")
    for name, cost in best.items():
        times, memory = cost.cpu / plain.cpu, cost.megabytes / plain.megabytes
        print(f"| {name} | {cost.cpu:.2f} | {times:.2f} | {cost.megabytes:.0f} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
    main()
