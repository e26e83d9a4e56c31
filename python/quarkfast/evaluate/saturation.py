"""Integer layers whose sums may not fit where a processor has no VNNI (`quarkfast.qparams.pairs`).

Depthwise convolutions go another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.qparams import overflowing_pairs, rows_of

__all__ = ["may_saturate", "rows_of_weight"]

# Operator type -> positions of the activation's zero point (its type tells that of the codes) and of the weight.
_LAYERS = {"QLinearConv": (2, 3), "QLinearMatMul": (2, 3), "QGemm": (2, 3), "MatMulIntegerToFloat": (4, 1)}
_UINT8, _INT8 = int(onnx.TensorProto.UINT8), int(onnx.TensorProto.INT8)
# What onnxruntime appends to the name of a layer whose layout it changes.
_TOKEN = re.compile(r"_token_\d+$")


def may_saturate(graph: onnx.GraphProto, source: onnx.GraphProto, *folders: Path) -> Iterator[str]:
    """Yields the names of layers with a pair of weights that can take a sum beyond 16 bits.

    Args:
        graph: A graph as onnxruntime has optimized it; constants may be in external files.
        source: The graph that it read, whose names the layers have.
        folders: Where those files are: what onnxruntime did not change may still lie beside the model that it read.
    """
    constants = {tensor.name: tensor for tensor in graph.initializer}
    known, readers = {node.name for node in source.node}, _readers_of_codes(source)
    for node in graph.node:
        zero_point, weight = (constants.get(name) for name in _pick(node))
        if zero_point is None or weight is None or _is_depthwise(node, weight):
            continue
        if (zero_point.data_type, weight.data_type) != (_UINT8, _INT8):
            continue
        if overflowing_pairs(rows_of_weight(node, _array(weight, folders))).any():
            name = _TOKEN.sub("", node.name)
            yield name if name in known else readers.get(weight.name, name)


def _readers_of_codes(graph: onnx.GraphProto) -> Mapping[str, str]:
    """Returns the name of the layer behind each DequantizeLinear, by the name of its codes.

    For onnxruntime 1.18, which calls a layer whose layout it changes QLinearConv.
    """
    decoded = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    return {decoded[name]: node.name for node in graph.node for name in node.input if name in decoded}


def _array(tensor: onnx.TensorProto, folders: Sequence[Path]) -> NDArray[np.int8]:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    folder = next((each for each in folders if (each / location).is_file()), Path())
    found: NDArray[np.int8] = onnx.numpy_helper.to_array(tensor, str(folder))
    return found


def _pick(node: onnx.NodeProto) -> tuple[str, str]:
    zero_point, weight = _LAYERS.get(node.op_type, (0, 0))
    return (node.input[zero_point], node.input[weight]) if len(node.input) > max(zero_point, weight, 2) else ("", "")


def _integers(node: onnx.NodeProto) -> Mapping[str, int]:
    return {attribute.name: attribute.i for attribute in node.attribute}


def _is_depthwise(node: onnx.NodeProto, weight: onnx.TensorProto) -> bool:
    return _integers(node).get("group", 1) > 1 and weight.dims[1] == 1


def rows_of_weight(node: onnx.NodeProto, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Returns one row for each output, in the order in which products are added up.

    Args:
        node: A convolution or matrix product of floats or of codes.
        codes: Its weight.
    """
    if node.op_type.endswith("Conv"):
        return rows_of(codes, "kernel")
    return rows_of(codes, "rows" if _integers(node).get("transB") else "columns")
