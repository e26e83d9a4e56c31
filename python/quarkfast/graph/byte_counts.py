"""Where the bytes of a quantized model are: codes, scales, constants that stayed float, and the graph itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.operators import DEQUANTIZERS, QUANTIZERS

__all__ = ["count_bytes"]

_NAMES = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}
_SCALES = "scales and zero points"


def count_bytes(model: onnx.ModelProto, total: int) -> dict[str, int]:
    """Returns what the bytes of `model` hold -> how many, the most first.

    Args:
        model: A quantized model; data in a second file is counted and not read.
        total: Size of all its files. What is no constant of it is called "nodes, names and metadata".

    Example:
        >>> text = "g (float[4] x) => (float[4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> { y = Add(x, w) }"
        >>> count_bytes(onnx.helper.make_model(onnx.parser.parse_graph(text)), 100)
        {'nodes, names and metadata': 84, 'float32 constants': 16}
    """
    found: Counter[str] = Counter()
    for graph in _graphs(model.graph):
        kinds = {name: kind for node in graph.node for name, kind in _kinds(node)}
        tensors = [
            *graph.initializer,
            *(each.t for node in graph.node for each in node.attribute if each.HasField("t")),
        ]
        for tensor in tensors:
            dtype = ir.DataType(tensor.data_type)
            if dtype != ir.DataType.STRING:
                kind, name = kinds.get(tensor.name, "{} constants"), _NAMES.get(dtype, dtype.name.lower())
                found[kind.format(name)] += math.ceil(math.prod(tensor.dims) * dtype.bitwidth / 8)
    rest = total - found.total()
    if rest > 0:
        found["nodes, names and metadata"] = rest
    return dict(found.most_common())


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(body)


def _kinds(node: onnx.NodeProto) -> Iterator[tuple[str, str]]:
    """Yields what the constants are that a node of codes reads, "{}" for their type."""
    if node.op_type in QUANTIZERS or node.op_type in DEQUANTIZERS:
        if node.input and node.op_type not in QUANTIZERS:
            yield node.input[0], "{} codes"
        yield from ((name, _SCALES) for name in node.input[1:])
    elif node.op_type == "MatMulNBits":
        yield from zip(node.input[1:4], ("packed codes", _SCALES, _SCALES), strict=False)
