"""A model that looks at differences of neighbours: what rounds large numbers leaves nothing of them."""

from __future__ import annotations

import numpy as np
import onnx

from support.tiny_models import tiny_model

__all__ = ["PIXELS", "difference_model"]

PIXELS, UNITS = 64, 256
TEXT = f"""g (float[N, {PIXELS}] x) => (float[N, 8] y) {{
    a = MatMul (x, edges)
    b = Relu (a)
    c = MatMul (b, v)
    d = Relu (c)
    y = MatMul (d, w)
}}"""


def difference_model() -> onnx.ModelProto:
    """Returns three layers, of which the first takes from each number the one behind it."""
    rng = np.random.default_rng(4)
    edges = np.diag([0.0, *[1.0] * (PIXELS - 1)]) - np.eye(PIXELS, k=1)
    arrays = {"edges": edges, "v": rng.normal(0, 0.2, (PIXELS, UNITS)), "w": rng.normal(0, 0.2, (UNITS, 8))}
    return tiny_model(TEXT, {name: array.astype(np.float32) for name, array in arrays.items()})
