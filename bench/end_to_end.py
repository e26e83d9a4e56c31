"""Whole processes, from the start of the interpreter to the file: ``python -m bench.end_to_end WORK TOOL=PYTHON...``.

WORK holds ``models/MODEL.onnx`` and ``data/MODEL.npz`` (`bench.matrix` writes the data). TOOL is ``quarkfast`` (the
command line), ``quarkfast.quantize`` (the function) or the name of a script ``bench/peers/with_TOOL.py``, PYTHON the
interpreter of its environment. Each process quantizes to A8W8 with percentile calibration, batch 1 for the peers, as
their examples do. Idle threads of ONNX Runtime sleep. Prints wall and processor seconds (the least of `--rounds`) and
peak memory, tools in turn. Packages are to be installed with their bytecode, as pip does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODELS = ("resnet20_cifar10", "resnet56_cifar10", "minilm")
PEERS = Path(__file__).parent / "peers"
FUNCTION = """
import sys, quarkfast
model, data, output = sys.argv[1:]
quarkfast.quantize(model, output, "A8W8", data, method="METHOD")
"""


class Cost(NamedTuple):
    """What one process took."""

    wall: float
    cpu: float
    megabytes: float


def command(tool: str, python: str, model: Path, data: Path, out: Path, method: str = "percentile") -> list[str]:
    """Returns the command line of one job: A8W8 with the method `percentile` or `minmax`."""
    output = out / f"{model.stem}.onnx"
    if tool == "quarkfast":
        options = [
            "-p",
            "A8W8",
            "--method",
            method,
            "--calibration-data",
            str(data),
            "-o",
            str(output),
            "--force",
        ]
        return [python, "-m", "quarkfast", "quantize", str(model), *options]
    if tool == "quarkfast.quantize":
        return [python, "-c", FUNCTION.replace("METHOD", method), str(model), str(data), str(output)]
    case = "A8W8-percentile" if method == "percentile" else "A8W8"
    return [python, str(PEERS / f"with_{tool}.py"), str(model), str(data), str(out), case]


def run(arguments: list[str]) -> Cost:
    """Runs a process to its end.

    Raises:
        SystemExit: If it fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(arguments)}: status {status}")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def rows(work: Path, tools: dict[str, str], rounds: int, models: list[str]) -> Iterator[str]:
    """Yields the lines of the table."""
    out = work / "end_to_end"
    out.mkdir(parents=True, exist_ok=True)
    for model in models:
        costs: dict[str, list[Cost]] = {tool: [] for tool in tools}
        for _ in range(rounds):
            for tool, python in tools.items():
                job = command(tool, python, work / "models" / f"{model}.onnx", work / "data" / f"{model}.npz", out)
                costs[tool].append(run(job))
        best = {tool: Cost(*(min(values) for values in zip(*found, strict=True))) for tool, found in costs.items()}
        ours = best[next(iter(tools))]
        for tool, cost in best.items():
            ratio = f"{cost.cpu / ours.cpu:.1f}"
            yield f"| {model} | {tool} | {cost.wall:.2f} | {cost.cpu:.2f} | {ratio} | {cost.megabytes:.0f} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("tools", nargs="+", help="TOOL=PYTHON, the first one is what the others are compared with")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--models", default=",".join(MODELS))
    arguments = parser.parse_args()
    tools = dict(each.split("=", 1) for each in arguments.tools)
    print("| model | tool | wall s | CPU s | CPU, times the first | peak MB |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for row in rows(arguments.work, tools, arguments.rounds, arguments.models.split(",")):
        print(row, flush=True)


if __name__ == "__main__":
    main()
