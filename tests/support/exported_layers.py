"""Layers as exporters write them, over inputs of rank 2, 3 and 4, in any operator set from 13 on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from support.tiny_models import tiny_model

__all__ = ["LAYERS", "RANKS", "exported_model", "exported_samples"]

Body = tuple[str, Mapping[str, NDArray[Any]]]
"""Nodes from `x` to `y` in ONNX's graph text, and constants by name."""

# Rows or tokens, and their features; the axes in front are a batch, and windows or channels of a picture. All are
# fixed, as where a model is exported for an NPU: onnxruntime fuses nothing whose shape it does not know.
_SHAPES: Mapping[int, tuple[int, ...]] = MappingProxyType({2: (8, 16), 3: (1, 8, 16), 4: (1, 4, 8, 16)})
RANKS = tuple(_SHAPES)

_FEATURES, _HIDDEN, _HEADS = 16, 32, 4

# The first operator set that has the whole of a normalization, and the first whose ReduceMean takes axes as an input.
_NORMALIZATION, _AXES_ARE_AN_INPUT = 17, 18


class _Weights:
    """Seeded constants that keep the size of what runs through them."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int) -> NDArray[np.float32]:
        return (self._rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    def kernel(self, *shape: int) -> NDArray[np.float32]:
        return (self._rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    def bias(self, *shape: int) -> NDArray[np.float32]:
        return (self._rng.standard_normal(shape) / 10).astype(np.float32)


def _linear(rank: int, opset: int, weights: _Weights) -> Body:
    """Two of PyTorch's Linear with a ReLU between them; an Add takes its bias first or last."""
    body = "m = MatMul(x, w) a = Add(b, m) r = Relu(a) n = MatMul(r, v) y = Add(n, c)"
    return body, {
        "w": weights.matrix(_FEATURES, _HIDDEN), "b": weights.bias(_HIDDEN),
        "v": weights.matrix(_HIDDEN, _FEATURES), "c": weights.bias(_FEATURES),
    }  # fmt: skip


def _gemm(rank: int, opset: int, weights: _Weights) -> Body:
    """Fully connected layers over the rows of an input of any rank."""
    body = "f = Reshape(x, rows) m = Gemm<transB = 1>(f, w, b) r = Relu(m) n = Gemm(r, v, c) y = Reshape(n, whole)"
    return body, {
        "w": weights.matrix(_FEATURES, _HIDDEN).T.copy(), "b": weights.bias(_HIDDEN),
        "v": weights.matrix(_HIDDEN, _FEATURES), "c": weights.bias(_FEATURES),
        "rows": np.int64([-1, _FEATURES]), "whole": np.int64(_SHAPES[rank]),
    }  # fmt: skip


def _conv(rank: int, opset: int, weights: _Weights) -> Body:
    """Convolutions of one axis or two whose biases Adds give, as CNTK and Keras have them."""
    space = max(rank - 2, 1)
    channels = _SHAPES[rank][1]
    begin, end = ("u = Unsqueeze(x, last)", "y = Squeeze(o, last)") if rank == 2 else ("u = Relu(x)", "y = Relu(o)")
    pads = [1] * (2 * space)
    body = f"{begin} m = Conv<pads = {pads}>(u, w) a = Add(m, b) r = Relu(a) n = Conv(r, v) o = Add(n, c) {end}"
    ones = (1,) * space
    return body, {
        "w": weights.kernel(8, channels, *(3,) * space), "b": weights.bias(8, *ones),
        "v": weights.kernel(channels, 8, *ones), "c": weights.bias(1, channels, *ones), "last": np.int64([2]),
    }  # fmt: skip


def _attention(rank: int, opset: int, weights: _Weights) -> Body:
    """Attention of four heads, in each window of a picture where there are such."""
    tokens, heads = rank - 2, rank - 1
    front = list(range(tokens))
    swap, turn = [*front, heads, tokens, rank], [*front, heads, rank, tokens]
    body = f"""
        qm = MatMul(x, wq) qa = Add(qm, bq) qr = Reshape(qa, parted) q = Transpose<perm = {swap}>(qr)
        km = MatMul(x, wk) ka = Add(bk, km) kr = Reshape(ka, parted) k = Transpose<perm = {turn}>(kr)
        vm = MatMul(x, wv) va = Add(vm, bv) vr = Reshape(va, parted) v = Transpose<perm = {swap}>(vr)
        s = MatMul(q, k) d = Div(s, root) p = Softmax<axis = -1>(d) c = MatMul(p, v)
        t = Transpose<perm = {swap}>(c) j = Reshape(t, whole) om = MatMul(j, wo) y = Add(om, bo)"""
    arrays = {f"w{name}": weights.matrix(_FEATURES, _FEATURES) for name in "qkvo"}
    arrays |= {f"b{name}": weights.bias(_FEATURES) for name in "qkvo"}
    parted = (*_SHAPES[rank][:-1], _HEADS, _FEATURES // _HEADS)
    return body, {**arrays, "parted": np.int64(parted), "whole": np.int64(_SHAPES[rank]), "root": np.float32(2)}


def _lstm(rank: int, opset: int, weights: _Weights) -> Body:
    """An LSTM over all rows in turn, without the axis of its directions, and a layer behind it."""
    body = """
        t = Reshape(x, turns) h = LSTM<hidden_size = 16>(t, w, r, b) q = Squeeze(h, directions)
        l = Reshape(q, whole) m = MatMul(l, v) y = Add(m, c)"""
    return body, {
        "w": weights.matrix(_FEATURES, 64).T[None].copy(), "r": weights.matrix(16, 64).T[None].copy(),
        "b": weights.bias(1, 128), "v": weights.matrix(_FEATURES, _FEATURES), "c": weights.bias(_FEATURES),
        "turns": np.int64([-1, 1, _FEATURES]), "directions": np.int64([1]), "whole": np.int64(_SHAPES[rank]),
    }  # fmt: skip


def _residual(rank: int, opset: int, weights: _Weights) -> Body:
    """A block of a transformer without its attention: normalization, two layers, a gate, and the sum."""
    mean = "ReduceMean({}, last)" if opset >= _AXES_ARE_AN_INPUT else "ReduceMean<axes = [-1]>({})"
    steps = f"""
        e = {mean.format("x")} f = Sub(x, e) g = Pow(f, two) h = {mean.format("g")}
        i = Add(h, little) j = Sqrt(i) k = Div(f, j) l = Mul(k, gain) z = Add(l, shift)"""
    steps = "z = LayerNormalization(x, gain, shift)" if opset >= _NORMALIZATION else steps
    body = f"{steps} m = MatMul(z, w) a = Add(m, b) s = Sigmoid(a) t = Mul(a, s) o = MatMul(t, v) p = Add(o, c)"
    return f"{body} y = Add(x, p)", {
        "w": weights.matrix(_FEATURES, _HIDDEN), "b": weights.bias(_HIDDEN), "v": weights.matrix(_HIDDEN, _FEATURES),
        "c": weights.bias(_FEATURES), "gain": np.ones(_FEATURES, np.float32), "shift": weights.bias(_FEATURES),
        "two": np.float32(2), "little": np.float32(1e-5), "last": np.int64([-1]),
    }  # fmt: skip


def _resize(rank: int, opset: int, weights: _Weights) -> Body:
    """A layer in front of a Resize to twice the width, and one behind it."""
    nearest = 'Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">'
    body = f"m = MatMul(x, w) a = Add(m, b) u = {nearest}(a, , scales) n = MatMul(u, v) o = Add(n, c) y = Relu(o)"
    return body, {
        "w": weights.matrix(_FEATURES, _FEATURES), "b": weights.bias(_FEATURES),
        "v": weights.matrix(_HIDDEN, _FEATURES), "c": weights.bias(_FEATURES),
        "scales": np.float32([1] * (rank - 1) + [2]),
    }  # fmt: skip


def _concat(rank: int, opset: int, weights: _Weights) -> Body:
    """Layers beside each other whose results are joined, turned and go through one more."""
    front = list(range(rank - 2))
    turn = [*front, rank - 1, rank - 2]
    body = f"""
        m = MatMul(x, w) a = Add(m, b) r = Relu(a) n = MatMul(x, v) o = Add(n, c) s = Sigmoid(o)
        j = Concat<axis = -1>(r, s, x) p = MatMul(j, u) q = Add(p, d) t = Transpose<perm = {turn}>(q)
        y = Transpose<perm = {turn}>(t)"""
    return body, {
        "w": weights.matrix(_FEATURES, _FEATURES), "b": weights.bias(_FEATURES),
        "v": weights.matrix(_FEATURES, _HIDDEN), "c": weights.bias(_HIDDEN),
        "u": weights.matrix(2 * _FEATURES + _HIDDEN, _FEATURES), "d": weights.bias(_FEATURES),
    }  # fmt: skip


LAYERS: Mapping[str, Callable[[int, int, _Weights], Body]] = MappingProxyType(
    {
        "linear": _linear,
        "gemm": _gemm,
        "conv": _conv,
        "attention": _attention,
        "lstm": _lstm,
        "residual": _residual,
        "resize": _resize,
        "concat": _concat,
    }
)
"""Name -> nodes and constants for a rank and an operator set."""


def exported_model(layer: str, rank: int, opset: int) -> onnx.ModelProto:
    """Returns a model of a layer over ``x``, all of whose shapes are known."""
    body, arrays = LAYERS[layer](rank, opset, _Weights(rank))
    shape = ", ".join(map(str, _SHAPES[rank]))
    arrays = {name: array for name, array in arrays.items() if f" {name}" in body.replace("(", " ")}
    proto = tiny_model(f"g (float[{shape}] x) => (float[A] y) {{ {body} }}", arrays, opset=opset)
    proto.ir_version = max(onnx.helper.find_min_ir_version_for(proto.opset_import), 8)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(proto, strict_mode=True)


def exported_samples(rank: int, count: int = 3) -> dict[str, NDArray[np.float32]]:
    """Returns seeded samples for ``x``, one after the other along its first axis."""
    first, *rest = _SHAPES[rank]
    return {"x": np.random.default_rng(5).standard_normal((count * first, *rest)).astype(np.float32)}
