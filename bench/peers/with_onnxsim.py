"""Models of onnxsim's quark_compat: ``python with_onnxsim.py MODEL DATA OUT CASE...``; see README.md."""

from __future__ import annotations

import sys
from pathlib import Path

from onnxsim.quark_compat import ModelQuantizer, QConfig
from reader import Reader

if __name__ == "__main__":
    source, data, out = (Path(each) for each in sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    for each in sys.argv[4:]:
        name, _, detail = each.partition("-")
        config = QConfig.get_default_config(name)
        if detail == "channel":
            config.extra_options["PerChannel"] = True
        if detail == "percentile":
            layer = config.global_config
            for spec in (layer.activation, layer.input_tensors):
                spec.calibration_method = "percentile:99.999"
        ModelQuantizer(config).quantize_model(str(source), str(out / f"{source.stem}.{each}.onnx"), Reader(data))
