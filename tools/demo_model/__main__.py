"""Trains the demo model and writes it, with its images, into the quarkfast package that it imports."""

import json

import numpy as np
import onnx
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from quarkfast.demo.data import DATA

from .export import to_onnx
from .train import accuracy, load, train


def main() -> None:
    digits = load()
    # The matrices are small: OpenBLAS on two threads took 200 s where one takes 27 s.
    with threadpool_limits(1):
        network = train(digits)
    top1 = accuracy(network, digits.test_x, digits.test_y)
    DATA.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(network), DATA / "digits.onnx")
    np.savez_compressed(
        DATA / "digits.npz",
        calibration_x=digits.calibration_x,
        test_x=digits.test_x,
        test_y=digits.test_y.astype(np.uint8),
    )
    record = {"test_images": len(digits.test_y), "top1_percent": round(100 * top1, 2)}
    (DATA / "digits.json").write_text(json.dumps(record, indent=2) + "\n")
    for path in sorted(DATA.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    print(f"top-1 on {len(digits.test_y)} test images: {100 * top1:.2f} %")


main()
