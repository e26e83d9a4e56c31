"""Ways of rounding weights beside each other: ``python -m bench.rounding SHARED MODEL...``.

SHARED holds ``models/MODEL.onnx``, ``data/cifar10_calib.npz`` and ``data/cifar10_eval.npz``. For each model, each
count of images (``--images``) and each preset (``--presets``), prints one row of a Markdown table for each of
``--roundings``: SQNR and top-1 over the evaluation images with exact sums, and seconds of processor time of the whole
quantization.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import get_args

import quarkfast
from bench.accuracy import images, logits
from quarkfast.config.scheme import WeightRounding
from quarkfast.evaluate import sqnr, top1
from quarkfast.evaluate.exact_sums import exact_session

HEADER = "| model | images | preset | rounding | SQNR | top-1 | CPU s |\n| :-- | --: | :-- | :-- | --: | --: | --: |"


def measure(
    shared: Path, model: str, counts: list[int], presets: list[str], roundings: list[str], evaluated: int | None
) -> None:
    """Prints the rows of one model."""
    path = shared / "models" / f"{model}.onnx"
    x, labels = images(shared / "data" / "cifar10_eval.npz", evaluated)
    reference = logits(exact_session(path), x)
    for count in counts:
        calibration, _ = images(shared / "data" / "cifar10_calib.npz", count)
        for preset in presets:
            for rounding in roundings:
                begin = time.process_time()
                result = quarkfast.quantize(path, preset=preset, calibration_data=calibration, rounding=rounding)
                seconds = time.process_time() - begin
                got = logits(exact_session(result.model_bytes), x)
                cells = f"{sqnr(reference, got):.2f} dB | {top1(got, labels):.2f} % | {seconds:.1f}"
                print(f"| {model} | {count} | {preset} | {rounding} | {cells} |", flush=True)


def main() -> None:
    """Prints the table of the models on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--images", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--presets", nargs="+", default=["A8W8", "XINT8", "U8S8"])
    parser.add_argument("--roundings", nargs="+", default=list(get_args(WeightRounding)))
    parser.add_argument("--evaluated", type=int, help="evaluation images; all by default")
    given = parser.parse_args()
    print(HEADER)
    for model in given.models:
        measure(given.shared, model, given.images, given.presets, given.roundings, given.evaluated)


if __name__ == "__main__":
    main()
