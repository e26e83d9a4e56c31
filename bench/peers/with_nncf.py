"""Models of NNCF: ``python with_nncf.py MODEL DATA OUT CASE...``; see README.md."""

from __future__ import annotations

import sys
from pathlib import Path

import nncf
import onnx
from reader import feeds

if __name__ == "__main__":
    source, data, out = (Path(each) for each in sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    dataset = nncf.Dataset(list(feeds(data)))
    transformer = nncf.ModelType.TRANSFORMER if "minilm" in source.stem else None
    model = nncf.quantize(
        onnx.load(source), dataset, preset=nncf.QuantizationPreset.MIXED, subset_size=256, model_type=transformer
    )
    for each in sys.argv[4:]:
        onnx.save(model, out / f"{source.stem}.{each}.onnx")
