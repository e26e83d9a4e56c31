"""A model of layers with weights, and copies of models with other weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from support.tiny_models import tiny_model


def weight_layers(rng: np.random.Generator, dtype: type[np.floating[Any]] = np.float32) -> onnx.ModelProto:
    """Gather -> MatMul -> Gemm -> Gemm with transB -> MatMul with a transposed weight, over [N] of int64."""
    arrays = {
        "table": rng.normal(size=(50, 48)),
        "w1": rng.normal(size=(48, 40)),
        "w2": rng.normal(size=(40, 36)),
        "b2": rng.normal(size=36),
        "w3": rng.normal(size=(64, 36)),
        "w4": rng.normal(size=(24, 64)),
    }
    kind = {np.float32: "float", np.float16: "float16"}[dtype]
    text = f"""g (int64[N] x) => ({kind}[N, 24] y) {{
        e = Gather (table, x)
        m = MatMul (e, w1)
        g2 = Gemm (m, w2, b2)
        g3 = Gemm <transB = 1> (g2, w3)
        t4 = Transpose <perm = [1, 0]> (w4)
        y = MatMul (g3, t4)
    }}"""
    return tiny_model(text, {name: array.astype(dtype) for name, array in arrays.items()})


def tied_model() -> onnx.ModelProto:
    """Gather of a table -> MatMul -> MatMul with the same table, transposed, over [N] of int64."""
    rng = np.random.default_rng(3)
    arrays = {"table": rng.normal(0, 0.2, (300, 64)), "w": rng.normal(0, 0.2, (64, 64))}
    text = """g (int64[N] x) => (float[N, 300] y) {
        e = Gather (table, x)
        a = MatMul (e, w)
        t = Transpose <perm = [1, 0]> (table)
        y = MatMul (a, t)
    }"""
    return tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})


def changed_weights(
    proto: onnx.ModelProto, change: Callable[[str, NDArray[Any]], Any], opset: int | None = None
) -> onnx.ModelProto:
    """Returns `proto` with each constant replaced by what `change` makes of its name and values."""
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    if opset is not None:
        # onnxruntime places casts around float16 operators by their version.
        changed.opset_import[0].version, changed.ir_version = opset, 10
    for tensor in changed.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(change(tensor.name, array), array.dtype), tensor.name))
    return changed
