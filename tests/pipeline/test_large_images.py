"""Photographs of 1760 x 1760: onnxruntime#21979 tells of 200 GB for twenty of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from support.tiny_models import tiny_model

pytest.importorskip("resource", reason="no module resource: Windows does not tell the peak of a process in this way")

SIDE = 1760
_RUN = f"""
import json, sys
sys.path[:] = json.loads(sys.argv[3])
import numpy as np
import quarkfast
from support.peak_memory import peak_bytes
rng = np.random.default_rng(1)
image = rng.standard_normal((1, 3, {SIDE}, {SIDE}), np.float32)
images = ({{"x": image * np.float32(1 + index % 7)}} for index in range(int(sys.argv[2])))
result = quarkfast.quantize(sys.argv[1], preset="U8S8", calibration_data=images, method="percentile")
print(json.dumps([peak_bytes(), result.summary.samples]))
"""


def _model() -> onnx.ModelProto:
    text = f"""g (float[N, 3, {SIDE}, {SIDE}] x) => (float[N, 8, 220, 220] y) {{
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, u)
        b = Relu(a)
        c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, v)
        d = Relu(c)
        y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d)
    }}"""
    rng = np.random.default_rng(2)
    shapes = {"u": (8, 3, 3, 3), "v": (8, 8, 3, 3)}
    return tiny_model(text, {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()})


def _peak(folder: Path, images: int) -> int:
    """Returns the most bytes that a fresh process holds while it quantizes by percentiles of `images` images."""
    onnx.save(_model(), folder / "m.onnx")
    arguments = [str(folder / "m.onnx"), str(images), json.dumps(sys.path)]
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    peak, samples = json.loads(done.stdout)
    assert samples == images
    return int(peak)


def test_twenty_large_images_and_percentiles_stay_below_four_gigabytes(tmp_path: Path) -> None:
    few, many = _peak(tmp_path, 2), _peak(tmp_path, 20)
    assert many < 4e9
    # The input and the activations of one image are 101 MB, of the eighteen more 1.8 GB. Three images are what a run,
    # its successor and the images drawn between them may hold at one time and not at another.
    assert many - few < 300e6
