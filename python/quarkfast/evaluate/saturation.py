"""Integer layers whose sums may not fit where a processor has no VNNI (`quarkfast.qparams.pairs`).

Depthwise convolutions go another way."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.qparams import overflowing_pairs, rows_of

__all__ = ["attributes_of", "excess", "may_saturate", "rows_of_weight"]

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


_LOWEST, _HIGHEST = -32768, 32767


def attributes_of(node: onnx.NodeProto) -> Mapping[str, Any]:
    """Returns the attributes of a node by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def excess(
    node: onnx.NodeProto, weight: NDArray[np.int8], codes: NDArray[np.uint8], zero_point: int
) -> NDArray[np.int64]:
    """Returns the sums of ``clip(s, -32768, 32767) - s`` over the pairs ``s`` of products of each output.

    Args:
        node: A Conv, MatMul or Gemm.
        weight: Codes of its second input; of a product, of two dimensions.
        codes: Codes of its first input.
        zero_point: What a convolution pads with.

    Returns:
        An array of the shape of the output.
    """
    rows = rows_of_weight(node, weight)
    if node.op_type == "Conv":
        groups = np.split(rows, int(attributes_of(node).get("group", 1)))
        return np.stack([_of_image(node, groups, image, weight.shape[2:], zero_point) for image in codes])
    given = codes.T if attributes_of(node).get("transA") else codes
    return _sums(given.reshape(-1, given.shape[-1]), rows).reshape(*given.shape[:-1], len(rows))


def _of_image(
    node: onnx.NodeProto,
    groups: Sequence[NDArray[np.int8]],
    image: NDArray[np.uint8],
    kernel: Sequence[int],
    zero_point: int,
) -> NDArray[np.int64]:
    patches = _patches(node, image, kernel, zero_point)
    space = patches.shape[: len(kernel)]
    channels = np.split(patches, len(groups), axis=-1)
    sums = [_sums(part.reshape(math.prod(space), -1), rows) for part, rows in zip(channels, groups, strict=True)]
    return np.moveaxis(np.hstack(sums).reshape(*space, -1), -1, 0)


def _sums(codes: NDArray[np.uint8], rows: NDArray[np.int8]) -> NDArray[np.int64]:
    """Returns the sums of ``[count, K]`` with each of ``[N, K]``, as ``[count, N]``."""
    found = np.zeros((len(codes), len(rows)), np.int64)
    pairs = overflowing_pairs(rows)
    for index in np.flatnonzero(pairs.any(axis=1)):
        places = 2 * np.flatnonzero(pairs[index])
        sums = sum(codes[:, places + side].astype(np.int32) * rows[index, places + side] for side in (0, 1))
        found[:, index] = (np.clip(sums, _LOWEST, _HIGHEST) - sums).sum(axis=1)
    return found


def _patches(node: onnx.NodeProto, image: NDArray[np.uint8], kernel: Sequence[int], fill: int) -> NDArray[np.uint8]:
    """Returns what each output of a convolution sums over: ``[*space, *kernel, channels]``."""
    given, rank = attributes_of(node), len(kernel)
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    extents = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    padded = np.pad(image, [(0, 0), *_pads(given, image.shape[1:], extents, strides)], constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, axis=tuple(range(1, rank + 1)))
    steps = [slice(None, None, step) for step in (*strides, *dilations)]
    return np.moveaxis(windows[(slice(None), *steps)], 0, -1)


def _pads(
    given: Mapping[str, Any], sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns what a convolution puts before and behind each axis of space."""
    rank, mode = len(sizes), given.get("auto_pad", b"NOTSET")
    if mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = given.get("pads", [0] * 2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    lacking = [
        max(0, (-(-size // step) - 1) * step + extent - size)
        for size, extent, step in zip(sizes, extents, strides, strict=True)
    ]
    halves = [(each // 2, each - each // 2) for each in lacking]
    return halves if mode == b"SAME_UPPER" else [(behind, before) for before, behind in halves]
