"""Q/DQ pairs as one node each: the same bits in one pass over memory, for sessions that run a model as it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx
import onnx.numpy_helper

from quarkfast.graph.subgraphs import names_read

__all__ = ["join_pairs"]

_STANDARD = ("", "ai.onnx")
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_DOMAIN, _JOINED = "quarkfast", "QuantizeDequantizeLinear"

# Types of zero points that the joined operator has.
_CODES = frozenset({onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16, onnx.TensorProto.INT16})

_SINGLE = ((), (1,))

# From this operator set on the scale may have another type than what is quantized, and decoded values too.
_MIXED_TYPES = 23


class _Number(NamedTuple):
    """What is known of a scale or a zero point before the model runs."""

    type: int
    shape: tuple[int, ...]
    is_positive: bool = True  # as far as that is known


def join_pairs(model: onnx.ModelProto) -> bool:
    """Puts one node in the place of each DequantizeLinear and the QuantizeLinear that it reads, in place.

    Joined are pairs of the main graph that share one float32 scale above zero and one zero point of 8 or 16 bits, both
    of them initializers or inputs, in operator sets before 23. A QuantizeLinear that something else reads stays for
    that. Tensors keep their names.

    Args:
        model: The model; an import of the domain ``quarkfast`` is added.

    Returns:
        Whether there was any such pair.

    Example:
        >>> import onnx
        >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
        ... g (float[N] x) => (float[N] y) <float s = {0.5}, int8 z = {0}> {
        ...     q = QuantizeLinear(x, s, z)
        ...     y = DequantizeLinear(q, s, z)
        ... }''')
        >>> join_pairs(model), [node.op_type for node in model.graph.node]
        (True, ['QuantizeDequantizeLinear'])
    """
    graph = model.graph
    if any(each.domain in _STANDARD and each.version >= _MIXED_TYPES for each in model.opset_import):
        return False
    makers = {node.output[0]: node for node in graph.node if _is_standard(node, _QUANTIZE)}
    numbers = _numbers(graph)
    joined = {
        node.output[0]: onnx.helper.make_node(
            _JOINED, makers[node.input[0]].input, node.output, node.name, domain=_DOMAIN
        )
        for node in graph.node
        if _is_standard(node, _DEQUANTIZE) and node.input[0] in makers and _match(makers[node.input[0]], node, numbers)
    }
    if not joined:
        return False
    read = Counter(name for node in graph.node if not _is_in(node, joined) for name in names_read(node))
    read.update(value.name for value in graph.output)
    kept = [node for node in graph.node if not _is_in(node, makers) or read[node.output[0]]]
    # Copies: the list holds messages that lie in the field that is cleared.
    nodes = [joined[node.output[0]] if _is_in(node, joined) else _copy(node) for node in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    if all(each.domain != _DOMAIN for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    return True


def _numbers(graph: onnx.GraphProto) -> dict[str, _Number]:
    """Returns what is known of initializers of one number, and of inputs as far as their shapes are given."""
    found = {
        tensor.name: _Number(tensor.data_type, tuple(tensor.dims), _is_positive(tensor))
        for tensor in graph.initializer
        if tuple(tensor.dims) in _SINGLE and tensor.data_location == onnx.TensorProto.DEFAULT
    }
    for value in graph.input:
        kind = value.type.tensor_type
        if value.name not in found and kind.HasField("shape"):
            found[value.name] = _Number(kind.elem_type, tuple(dim.dim_value for dim in kind.shape.dim))
    return found


def _is_positive(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor holds floats above zero; others, strings among them, are not compared with it."""
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return False
    values = onnx.numpy_helper.to_array(tensor)
    return bool(np.all((values > 0) & np.isfinite(values)))


def _match(maker: onnx.NodeProto, node: onnx.NodeProto, numbers: Mapping[str, _Number]) -> bool:
    """Whether both nodes of a pair have the same scale and zero point, of a kind that the joined operator takes."""
    if len(node.input) < 3 or maker.input[1:] != node.input[1:]:
        return False
    scale, zero_point = (numbers.get(name) for name in node.input[1:])
    if scale is None or zero_point is None or scale.shape not in _SINGLE or zero_point.shape not in _SINGLE:
        return False
    return scale.type == onnx.TensorProto.FLOAT and scale.is_positive and zero_point.type in _CODES


def _is_standard(node: onnx.NodeProto, op_type: str) -> bool:
    return node.op_type == op_type and node.domain in _STANDARD


def _is_in(node: onnx.NodeProto, outputs: Mapping[str, object]) -> bool:
    return len(node.output) == 1 and node.output[0] in outputs


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
