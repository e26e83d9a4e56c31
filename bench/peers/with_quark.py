"""Models of AMD Quark: ``python with_quark.py MODEL DATA OUT CASE...``; see README.md."""

from __future__ import annotations

import sys
from pathlib import Path

from onnxruntime.quantization import CalibrationMethod
from quark.onnx import ModelQuantizer
from quark.onnx.quantization.config import Config, get_default_config
from reader import Reader

if __name__ == "__main__":
    source, data, out = (Path(each) for each in sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[4:]:
        name, _, detail = each.partition("-")
        config = get_default_config(name)
        config.per_channel = detail == "channel"
        if detail == "percentile":
            config.calibrate_method = CalibrationMethod.Percentile
        target = str(out / f"{source.stem}.{each}.onnx")
        ModelQuantizer(Config(global_quant_config=config)).quantize_model(str(source), target, Reader(data))
