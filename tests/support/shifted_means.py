"""A network whose activations, cut off, shift the means of its layers, and samples for it."""

from __future__ import annotations

import numpy as np
import onnx

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import run_as_written, tiny_model

CHANNELS, LAYERS = 8, 6

# Ranges that cut off a tenth of all values shift means, as few bits and curved functions do in large models.
CUT = {"method": "percentile", "percentile": 90.0}


def model() -> onnx.ModelProto:
    rng = np.random.default_rng(4)
    lines, arrays, last = [], {}, "x"
    for layer in range(LAYERS):
        lines.append(f"c{layer} = Conv <pads = [1, 1, 1, 1]> ({last}, w{layer}, b{layer}) r{layer} = Relu (c{layer})")
        arrays[f"w{layer}"] = rng.normal(0, 0.2, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        arrays[f"b{layer}"] = rng.normal(0, 0.1, CHANNELS).astype(np.float32)
        last = f"r{layer}"
    arrays |= {"w": rng.normal(0, 0.3, (4, CHANNELS, 1, 1)).astype(np.float32), "b": np.zeros(4, np.float32)}
    body = " ".join([*lines, f"y = Conv ({last}, w, b)"])
    return tiny_model(f"g (float[N, {CHANNELS}, 6, 6] x) => (float[N, 4, 6, 6] y) {{ {body} }}", arrays)


def x(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, CHANNELS, 6, 6)).astype(np.float32)


def ratio(result: quarkfast.QuantizedModel) -> float:
    others = x(32, 5)
    (expected,) = exact_session(model()).run(None, {"x": others})
    return sqnr(expected, run_as_written(result.model_bytes, others))
