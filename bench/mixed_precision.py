"""What mixed precision brings and costs: ``python -m bench.mixed_precision SHARED``.

SHARED holds ``models/MODEL.onnx`` and ``data/cifar10_calib.npz``, of which the first 256 images are given as samples
(16 of them are held apart to judge) and the other 256 measure, with exact sums. Prints one Markdown table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import quarkfast
from bench.accuracy import images
from quarkfast import ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

# What is asked for, in dB.
MODELS = {"resnet20_cifar10": 30, "mobilenetv2_cifar10": 34}
INT8, INT16 = ({part: {"dtype": dtype} for part in ("activation", "weight")} for dtype in ("int8", "int16"))
WIDE = {"activation_type": "int16", "weight_type": "int16"}

Case = tuple[str, Mapping[str, Any], Mapping[str, Any]]


def cases(least: int) -> tuple[Case, ...]:
    """Returns what is tried: a label, options, and settings of mixed precision."""
    by_bytes = {"share_of": "bytes"}
    return (
        (f"A8W8, int16 for {least} dB", {}, {**INT16, **by_bytes, "objective": "quality", "threshold": least}),
        ("A8W8, int16 for 25 % of the bytes", {}, {**INT16, **by_bytes, "objective": "quality", "share": 0.25}),
        (f"16 bits, int8 down to {least} dB", WIDE, {**INT8, **by_bytes, "threshold": least}),
    )


def main(shared: Path) -> None:
    """Prints the table."""
    x, _ = images(shared / "data" / "cifar10_calib.npz")
    samples, others = x[:256], x[256:]
    for name, least in MODELS.items():
        path = shared / "models" / f"{name}.onnx"
        reference = ort.inference_session(path.read_bytes(), ort.session_options(optimize=False))
        feed = {reference.get_inputs()[0].name: others}
        (wanted,) = ort.run(reference, feed)
        for label, options, settings in cases(least):
            given = {"preset": "A8W8", "calibration_data": samples, "method": "minmax", **options}
            plain = quarkfast.quantize(path, **given)
            start = time.process_time()
            mixed = quarkfast.quantize(path, mixed_precision=settings, **given)
            seconds = time.process_time() - start
            before, after = (sqnr(wanted, ort.run(exact_session(m.model_bytes), feed)[0]) for m in (plain, mixed))
            changed = mixed.summary.notes[-1].split(" (")[0].removeprefix("mixed precision: ")
            print(
                f"| {name.partition('_')[0]}, {label} | {before:.1f} dB, {len(plain.model_bytes):,} bytes "
                f"| {after:.1f} dB, {len(mixed.model_bytes):,} bytes | {changed} | {seconds:.1f} |"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
