"""How long quantized models take in ONNX Runtime: ``python -m bench.latency WORK``.

WORK is the folder of `bench.matrix`: ``data/MODEL.npz``, ``models/MODEL.onnx`` (the float models), and a folder of
models for each quantizer. Each row is one model; its columns are the float model, ours and those of
onnxruntime.quantization, run in turn on the same 32 samples, with one thread; the least of the rounds, in
milliseconds. In brackets the integer kernels of ONNX Runtime's optimized graph and the layers left in float.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from quarkfast import ort
from quarkfast.evaluate.verification import verify

MODELS = ("resnet20_cifar10", "resnet56_cifar10", "mobilenetv2_cifar10", "minilm")
CASES = ("U8S8", "U8S8-channel", "A8W8", "DYNAMIC")
QUANTIZERS = ("quarkfast", "onnxruntime")
SAMPLES = 32
ROUNDS = 25


def milliseconds(paths: list[Path], data: Path) -> list[float]:
    """Returns the least time of one run of each model, the models in turn."""
    with np.load(data) as stored:
        feed = {name: stored[name][:SAMPLES] for name in stored.files}
    sessions = [ort.inference_session(path, ort.session_options(threads=1)) for path in paths]
    runs = [partial(ort.run, session, feed) for session in sessions]
    best = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], (time.perf_counter() - start) * 1e3)
    return best


def kernels(path: Path) -> str:
    """Returns how many convolutions and products ONNX Runtime computes on integers, and how many not."""
    found = verify(path)
    layers = sum(count for kind, count in found.integer.items() if "Conv" in kind or "MatMul" in kind or "Gemm" in kind)
    return f"{layers}, {len(found.float_layers)}"


def rows(work: Path) -> Iterator[str]:
    """Yields the rows of the table."""
    for model in MODELS:
        for case in CASES:
            paths = [work / quantizer / f"{model}.{case}.onnx" for quantizer in QUANTIZERS]
            times = milliseconds([work / "models" / f"{model}.onnx", *paths], work / "data" / f"{model}.npz")
            cells = [f"{found:.1f} ({kernels(path)})" for found, path in zip(times[1:], paths, strict=True)]
            yield f"| {model} {case} | {times[0]:.1f} | {' | '.join(cells)} |"


def main() -> None:
    """Prints a Markdown table."""
    print(f"| 32 samples, one thread, ms | float | {' | '.join(QUANTIZERS)} |")
    print("| :-- | --: | --: | --: |")
    for row in rows(Path(sys.argv[1])):
        print(row, flush=True)


if __name__ == "__main__":
    main()
