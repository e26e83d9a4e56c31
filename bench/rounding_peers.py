"""Weight rounding beside the peers': ``python -m bench.rounding_peers WORK SHARED --quark PYTHON --onnxsim PYTHON``.

PYTHON is the one of an environment that has the peer. On each of ``--models`` and each number of ``--images``, the
peers' AdaRound and AdaQuant, with their own options, run beside ``quarkfast quantize --rounding descent``, in A8W8 also
with ``--shift-activations``. 1,000 other images judge with exact sums; seconds are the processor time of whole
processes. All run on one processor: a thread on the other half of a core would count seconds in which it does little.
Prints a Markdown table. WORK keeps the models.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.accuracy import images, logits
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

MODELS = ("resnet20_cifar10", "mobilenetv2_cifar10", "resnet56_cifar10")
PEERS = Path(__file__).parent / "peers"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=absolute)
    parser.add_argument("shared", type=absolute)
    parser.add_argument("--quark", type=absolute, help="Python of an environment that has AMD Quark")
    parser.add_argument("--onnxsim", type=absolute, help="the same for onnxsim")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--presets", nargs="+", default=["XINT8", "A8W8"])
    parser.add_argument("--images", type=int, nargs="+", default=[64, 256])
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # that of all processes it starts, too
    x, _ = images(given.shared / "data" / "cifar10_eval.npz", 1000)
    print("| model | preset | images | tool | SQNR | CPU s |\n| :-- | :-- | --: | :-- | --: | --: |", flush=True)
    for name in given.models:
        model = given.shared / "models" / f"{name}.onnx"
        reference = logits(exact_session(model), x)
        for count in given.images:
            data = given.work / f"{name}_{count}.npz"
            samples, _ = images(given.shared / "data" / "cifar10_calib.npz", count)
            np.savez(data, **{exact_session(model).get_inputs()[0].name: samples})
            for preset in given.presets:
                for tool, command, made in contestants(given, model, data, preset):
                    seconds = processor_time(command, given.work)
                    ratio = f"{sqnr(reference, logits(exact_session(made), x)):.2f} dB" if made.exists() else "none"
                    print(f"| {name} | {preset} | {count} | {tool} | {ratio} | {seconds:.1f} |", flush=True)


def contestants(
    given: argparse.Namespace, model: Path, data: Path, preset: str
) -> Iterator[tuple[str, list[str], Path]]:
    """Yields the name of each, its command, and the model that it writes."""
    for peer, python in (("Quark", given.quark), ("onnxsim", given.onnxsim)):
        for method in ("AdaRound", "AdaQuant") if python else ():
            case, out = f"{preset}_{method.upper()}", given.work / f"{peer}_{data.stem}"
            script = str(PEERS / f"with_{peer.lower()}.py")
            command = [str(python), script, str(model), str(data), str(out), case]
            yield f"{peer} {method}", command, out / f"{model.stem}.{case}.onnx"
    for further in ([], ["--shift-activations"]) if preset == "A8W8" else ([],):
        made = given.work / f"quarkfast_{data.stem}_{preset}{len(further)}.onnx"
        options = ["-p", preset, "--calibration-data", str(data), "--rounding", "descent", *further]
        command = [sys.executable, "-m", "quarkfast", "quantize", str(model), "-o", str(made), *options]
        yield " ".join(["quarkfast descent", *further]), command, made


def absolute(path: str) -> Path:
    """Returns a path that other folders take too, with its links: the Python of an environment is one."""
    return Path(path).absolute()


def processor_time(command: list[str], folder: Path) -> float:
    """Runs a command in a folder, for Quark writes a table of layers into it.

    Returns:
        What processor time it and its children took, in seconds.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if "quarkfast" not in command:
        environment.pop("PYTHONPATH", None)  # the peer's own packages
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
