"""Models of onnxruntime.quantization: ``python with_onnxruntime.py MODEL DATA OUT CASE...``; see README.md."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from reader import Reader

ACTIVATIONS = {"A8W8": QuantType.QInt8, "U8S8": QuantType.QUInt8}


def quantize(model: Path, data: Path, output: Path, case: str) -> None:
    """Writes `model` in one case; A8W8 is symmetric as Quark's is."""
    name, _, detail = case.partition("-")
    if name == "DYNAMIC":
        quantize_dynamic(model, output, weight_type=QuantType.QInt8)
        return
    options = {"ActivationSymmetric": name == "A8W8", "WeightSymmetric": True}
    quantize_static(
        model,
        output,
        Reader(data),
        quant_format=QuantFormat.QDQ,
        per_channel=detail == "channel",
        activation_type=ACTIVATIONS[name],
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.Percentile if detail == "percentile" else CalibrationMethod.MinMax,
        extra_options=options,
    )


if __name__ == "__main__":
    source, data, out = (Path(each) for each in sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(source, prepared, skip_symbolic_shape=True)  # which fails on magika
        for each in sys.argv[4:]:
            quantize(prepared, data, out / f"{source.stem}.{each}.onnx", each)
