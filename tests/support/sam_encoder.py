"""The image encoder of Segment Anything with the shapes of ViT-B at 1024 pixels, few blocks, random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["sam_encoder"]

SIDE, PATCH, WIDTH, HEADS, WINDOW, OUT = 1024, 16, 768, 12, 14, 256
GRID, DEPTH = SIDE // PATCH, WIDTH // HEADS


class _Writer:
    """Gathers nodes and initializers; `op` names its output after the node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(5)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return self.constant(self._rng.standard_normal(shape, np.float32) * np.float32(scale / np.sqrt(fan_in)))

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.ints(*shape))

    def transpose(self, value: str, *perm: int) -> str:
        return self.op("Transpose", value, perm=perm)

    def linear(self, value: str, rows: int, columns: int) -> str:
        return self.op("Add", self.weight(1, columns, scale=0.1), self.op("MatMul", value, self.weight(rows, columns)))

    def norm(self, value: str) -> str:
        scale, bias = self.constant(np.ones(WIDTH, np.float32)), self.constant(np.zeros(WIDTH, np.float32))
        return self.op("LayerNormalization", value, scale, bias, axis=-1, epsilon=1e-6)

    def gelu(self, value: str) -> str:
        erf = self.op("Erf", self.op("Div", value, self.scalar(np.sqrt(2))))
        return self.op("Mul", self.op("Mul", value, self.op("Add", erf, self.scalar(1))), self.scalar(0.5))


def sam_encoder(windows: Sequence[bool] = (True, False)) -> onnx.ModelProto:
    """Returns the encoder, opset 17, with a block for each entry of `windows`: whether its attention is windowed.

    As exporters write it: LayerNormalization, Gelu by Erf, relative positions by Einsum, windows by Pad, Reshape and
    Transpose; a patch embedding in front and the neck of two convolutions behind. Input ``x`` is [1, 3, 1024, 1024],
    output ``y`` [1, 256, 64, 64].
    """
    w = _Writer()
    patches = w.op("Conv", "x", w.weight(WIDTH, 3, PATCH, PATCH), strides=[PATCH, PATCH], kernel_shape=[PATCH, PATCH])
    value = w.op("Add", w.transpose(patches, 0, 2, 3, 1), w.weight(1, GRID, GRID, WIDTH, scale=100))
    for windowed in windows:
        value = _block(w, value, windowed)
    neck = w.op("Conv", w.transpose(value, 0, 3, 1, 2), w.weight(OUT, WIDTH, 1, 1), kernel_shape=[1, 1])
    w.op("Conv", neck, w.weight(OUT, OUT, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    w.nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        w.nodes,
        "sam",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, OUT, GRID, GRID])],
        w.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _block(w: _Writer, value: str, windowed: bool) -> str:
    inner = w.norm(value)
    inner = _unpartition(w, _attention(w, _partition(w, inner), WINDOW)) if windowed else _attention(w, inner, GRID)
    value = w.op("Add", value, inner)
    hidden = w.gelu(w.linear(w.norm(value), WIDTH, 4 * WIDTH))
    return w.op("Add", value, w.linear(hidden, 4 * WIDTH, WIDTH))


_COUNT = -(-GRID // WINDOW)
_PADDED = _COUNT * WINDOW


def _partition(w: _Writer, value: str) -> str:
    padded = w.op("Pad", value, w.ints(0, 0, 0, 0, 0, _PADDED - GRID, _PADDED - GRID, 0))
    tiles = w.transpose(w.reshape(padded, 1, _COUNT, WINDOW, _COUNT, WINDOW, WIDTH), 0, 1, 3, 2, 4, 5)
    return w.reshape(tiles, -1, WINDOW, WINDOW, WIDTH)


def _unpartition(w: _Writer, value: str) -> str:
    tiles = w.transpose(w.reshape(value, 1, _COUNT, _COUNT, WINDOW, WINDOW, WIDTH), 0, 1, 3, 2, 4, 5)
    whole = w.reshape(tiles, 1, _PADDED, _PADDED, WIDTH)
    return w.op("Slice", whole, w.ints(0, 0), w.ints(GRID, GRID), w.ints(1, 2))


def _attention(w: _Writer, value: str, size: int) -> str:
    """Attention over windows of `size` x `size` with decomposed relative positions."""
    tokens = size * size
    qkv = w.reshape(w.linear(value, WIDTH, 3 * WIDTH), -1, tokens, 3, HEADS, DEPTH)
    parts = w.reshape(w.transpose(qkv, 2, 0, 3, 1, 4), 3, -1, tokens, DEPTH)
    q, k, v = (w.op("Gather", parts, w.constant(np.int64(index)), axis=0) for index in range(3))
    scores = w.op("MatMul", w.op("Mul", q, w.scalar(DEPTH**-0.5)), w.transpose(k, 0, 2, 1))
    queries = w.reshape(q, -1, size, size, DEPTH)
    rows = w.op("Einsum", queries, w.weight(size, size, DEPTH), equation="bhwc,hkc->bhwk")
    columns = w.op("Einsum", queries, w.weight(size, size, DEPTH), equation="bhwc,wkc->bhwk")
    grid = w.reshape(scores, -1, size, size, size, size)
    grid = w.op("Add", grid, w.op("Unsqueeze", rows, w.ints(4)))
    grid = w.op("Add", grid, w.op("Unsqueeze", columns, w.ints(3)))
    weights = w.op("Softmax", w.reshape(grid, -1, tokens, tokens), axis=-1)
    mixed = w.reshape(w.op("MatMul", weights, v), -1, HEADS, size, size, DEPTH)
    return w.linear(w.reshape(w.transpose(mixed, 0, 2, 3, 1, 4), -1, size, size, WIDTH), WIDTH, WIDTH)
