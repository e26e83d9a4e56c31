"""Accuracy, fusion and latency of every preset on a CIFAR-10 model: ``python -m bench.accuracy SHARED MODEL...``.

SHARED holds ``models/MODEL.onnx``, ``data/cifar10_calib.npz`` and ``data/cifar10_eval.npz``. Calibration takes the
first 256 images in batches of 32; accuracy is taken over the evaluation images, with exact sums, which are the same on
every processor, and the SQNR of a default session on this one stands beside it. Latency and kernels are those of a
default session. Prints one Markdown table a model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

import quarkfast
from quarkfast import ort
from quarkfast.evaluate import agreement, sqnr, top1
from quarkfast.evaluate.exact_sums import exact_session

MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]

CASES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("A8W8", {}),
    ("A8W8", {"per_channel": True}),
    ("A16W8", {}),
    ("U8S8", {}),
    ("U8S8", {"per_channel": True}),
    ("XINT8", {}),
    ("FP16", {}),
    ("BF16", {}),
    ("BF16", {"bf16_qdq_to_cast": True}),
)
FUSED = ("QLinearConv", "QLinearAdd", "QLinearGlobalAveragePool", "QGemm", "QLinearMatMul")
ROUNDS = 15


class Contestant(NamedTuple):
    """A model under one name, and a default session on it."""

    name: str
    data: bytes
    session: Any


def images(path: Path, count: int | None = None) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Returns preprocessed images and labels."""
    with np.load(path) as data:
        x, y = data["x"][:count], data["y"][:count]
    return normalized(x), y


def normalized(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns images as the models were trained on them."""
    return ((pixels.astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)


def contestants(model: Path, calibration: NDArray[np.float32]) -> Iterator[Contestant]:
    """Yields the float model and each case."""
    yield Contestant("float", model.read_bytes(), ort.inference_session(model))
    for preset, options in CASES:
        data = quarkfast.quantize(model, preset=preset, calibration_data=calibration, **options).model_bytes
        name = " ".join([preset, *(key.replace("_", " ") for key in options)])
        yield Contestant(name, data, ort.inference_session(data))


def logits(session: Any, x: NDArray[np.float32], batch: int = 50) -> NDArray[np.float32]:
    """Returns the model's output for all of `x`."""
    outputs = [ort.run(session, {"input": x[start : start + batch]})[0] for start in range(0, len(x), batch)]
    return np.concatenate(outputs)


def fused(data: bytes) -> str:
    """Returns how many nodes of each integer kernel ONNX Runtime's optimized graph has."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options = ort.session_options()
        options.optimized_model_filepath = str(path)
        ort.inference_session(data, options)
        counts = Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
    return ", ".join(f"{counts[name]} {name}" for name in FUSED if counts[name]) or "none"


def latencies(entries: list[Contestant], feed: Mapping[str, Any]) -> dict[str, float]:
    """Returns the least milliseconds of one run of each; the models take turns, so all see the same machine."""
    best = dict.fromkeys([entry.name for entry in entries], float("inf"))
    for _ in range(ROUNDS):
        for entry in entries:
            start = time.perf_counter()
            ort.run(entry.session, feed)
            best[entry.name] = min(best[entry.name], (time.perf_counter() - start) * 1000)
    return best


def table(shared: Path, model: str) -> Iterator[str]:
    """Yields the lines of a model's table."""
    calibration, _ = images(shared / "data" / "cifar10_calib.npz", 256)
    x, labels = images(shared / "data" / "cifar10_eval.npz")
    entries = list(contestants(shared / "models" / f"{model}.onnx", calibration))
    times = latencies(entries, {"input": x[:32]})
    reference = logits(exact_session(entries[0].data), x)
    yield f"### {model}, {len(x)} images, exact sums"
    yield ""
    yield "| preset | top-1 | same as float | SQNR | default session | bytes | ms for 32 images | integer kernels |"
    yield "| :-- | --: | --: | --: | --: | --: | --: | :-- |"
    for entry in entries:
        got, default = (logits(session, x) for session in (exact_session(entry.data), entry.session))
        decisions = f"{top1(got, labels):.2f} % | {agreement(reference, got):.2f} % | {sqnr(reference, got):.1f} dB"
        cells = f"{sqnr(reference, default):.1f} dB | {len(entry.data):,} | {times[entry.name]:.1f}"
        yield f"| {entry.name} | {decisions} | {cells} | {fused(entry.data)} |"


def main() -> None:
    """Prints the table of each model named on the command line."""
    shared = Path(sys.argv[1])
    for model in sys.argv[2:]:
        print("\n".join(table(shared, model)), "\n", flush=True)


if __name__ == "__main__":
    main()
