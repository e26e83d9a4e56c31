"""Ways of rounding weights beside each other: ``python -m bench.rounding SHARED MODEL...``.

SHARED holds ``models/MODEL.onnx``, ``data/cifar10_calib.npz`` and ``data/cifar10_eval.npz``. For each model, each
count of images (``--images``) and each preset (``--presets``), prints one row of a Markdown table for each of
``--roundings``: SQNR and top-1 over the evaluation images with exact sums, and seconds of processor time of the whole
quantization; in front of them the float model's top-1. ``--weight-type`` gives the weights another type,
``--per-channel`` a scale for each channel; with ``--shift-activations`` activations lose offsets.
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


def measure(given: argparse.Namespace, model: str) -> None:
    """Prints the rows of one model."""
    path = given.shared / "models" / f"{model}.onnx"
    x, labels = images(given.shared / "data" / "cifar10_eval.npz", given.evaluated)
    reference = logits(exact_session(path), x)
    print(f"| {model} | | float | | | {top1(reference, labels):.2f} % | |", flush=True)
    options = {"weight_type": given.weight_type} if given.weight_type else {}
    options |= {"per_channel": True} if given.per_channel else {}
    options |= {"shift_activations": True} if given.shift_activations else {}
    for count in given.images:
        calibration, _ = images(given.shared / "data" / "cifar10_calib.npz", count)
        for preset in given.presets:
            for rounding in given.roundings:
                begin = time.process_time()
                result = quarkfast.quantize(path, None, preset, calibration, rounding=rounding, **options)
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
    parser.add_argument("--weight-type", help="type of weights, e.g. int4; that of the preset by default")
    parser.add_argument("--per-channel", action="store_true", help="a scale for each channel of a weight")
    parser.add_argument("--shift-activations", action="store_true", help="subtract offsets from activations")
    given = parser.parse_args()
    print(HEADER)
    for model in given.models:
        measure(given, model)


if __name__ == "__main__":
    main()
