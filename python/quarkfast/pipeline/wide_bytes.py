"""How much of a model's activations and weights has more than 8 bits, as parts of their bytes in float32."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import onnx

from quarkfast import ort
from quarkfast.evaluate.partial_model import Feed
from quarkfast.formats import BLOCK_OPERATORS, find
from quarkfast.graph.operators import CODE_READERS, CODE_WRITERS, VIEWS
from quarkfast.graph.shape_inference import inferred
from quarkfast.quantization import Records

__all__ = ["WideShares", "share_above", "stored_activations", "stored_shares", "wide_shares"]

_FLOAT_BITS = 32

# Elements of blocks have no more; exponents that they share are at most a bit of each.
_BLOCK_BITS = 8

_PAIRS = BLOCK_OPERATORS | CODE_WRITERS | CODE_READERS
_SIZE = "quarkfast_size_"
_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_FLOATS = (onnx.TensorProto.FLOAT, *_HALVES)

# The first input behind codes: scales and zero points, which may have as many axes.
_PARAMETERS = {"DequantizeLinear": 1, "DynamicQuantizeLSTM": 3, "GatherBlockQuantized": 2, "MatMulNBits": 2}


class WideShares(NamedTuple):
    """Parts of bytes, as float32, from 0 to 1, that have more than 8 bits.

    Attributes:
        activations: Of what nodes compute and inputs hold, on the first sample.
        weights: Of constants with two dimensions or more.
    """

    activations: float
    weights: float

    def __str__(self) -> str:
        """Returns both in words."""
        return (
            f"{100 * self.activations:.1f} % of the bytes of activations, "
            f"{100 * self.weights:.1f} % of those of weights"
        )


def wide_shares(model: bytes, records: Records, feed: Feed, bits: int = 8) -> WideShares:
    """Returns what part of a quantized model has more than 8 bits, or than `bits`.

    Args:
        model: The quantized model.
        records: What is known of its nodes and tensors.
        feed: A sample, which decides sizes.
        bits: The most that count as few.

    Raises:
        ModelError: If ONNX Runtime does not take the model or the sample.
    """
    proto = onnx.load_model_from_string(model)
    stored = stored_activations(model, records, feed)
    activations = share_above([(size, bits_of(records, name)) for name, size in stored.items()], bits)
    return WideShares(activations, share_above(sized_weights(proto.graph, records).values(), bits))


def stored_shares(model: bytes) -> WideShares:
    """Returns what part of a model has more than 8 bits whose weights alone have codes that are known beforehand."""
    graph = onnx.load_model_from_string(model).graph
    decoding = ((node, _PARAMETERS[node.op_type]) for node in graph.node if node.op_type in _PARAMETERS)
    parameters = {name for node, first in decoding for name in node.input[first:]}
    packed = {node.input[1]: _packed(node) for node in graph.node if node.op_type == "MatMulNBits"}
    found = [
        (packed.get(each.name, math.prod(each.dims)), _FLOAT_BITS if each.data_type in _FLOATS else 8)
        for each in graph.initializer
        if sum(size > 1 for size in each.dims) > 1 and each.name not in parameters
    ]
    return WideShares(1.0, share_above(found))


def _packed(node: onnx.NodeProto) -> int:
    """Returns the number of weights of a MatMulNBits, whose last block may be padded."""
    attributes = {each.name: each.i for each in node.attribute}
    return int(attributes["K"]) * int(attributes["N"])


def share_above(sized: Iterable[tuple[int, int]], most: int = 8) -> float:
    """Returns the part of elements that have more than `most` bits, from pairs of a number of elements and their bits.

    Example:
        >>> share_above([(300, 8), (100, 16)])
        0.25
    """
    found = list(sized)
    return sum(size for size, bits in found if bits > most) / max(sum(size for size, _ in found), 1)


def bits_of(records: Records, name: str) -> int:
    """Returns how many bits the codes of a tensor have, without exponents of blocks; those of float32 without codes."""
    record = records.tensors.get(name)
    if record is None:
        return _FLOAT_BITS
    row = find(record.dtype)
    return min(math.ceil(row.bits), _BLOCK_BITS) if row.is_block else math.ceil(row.bits)


def stored_activations(model: bytes, records: Records, feed: Feed) -> dict[str, int]:
    """Returns name -> number of elements on one sample, of the activations that a device stores.

    These are inputs with codes and what nodes compute, but for views and for what a device computes along with the
    node that reads it: results of quantized nodes that have no pair, and what a function that is written out computes
    on its way. Of formats for operands of products alone, it is these operands: the rest of such a model is float.

    Args:
        model: The quantized model.
        records: What is known of its nodes and tensors.
        feed: The sample.

    Raises:
        ModelError: If ONNX Runtime does not take the model or the sample.
    """
    rounded = {name: find(each.dtype) for name, each in records.tensors.items() if each.kind == "activation"}
    if any(row.operands_only for row in rounded.values()):
        return _sizes(model, rounded, feed)
    computed = {name for node in records.nodes for name in node.outputs}
    wanted = [name for name in rounded if name not in computed]
    along = records.inner - records.tensors.keys()
    for node in records.nodes:
        codes = [name for name in node.outputs if name in records.tensors]
        if node.op_type not in VIEWS and node.state in ("quantized", "float"):
            wanted += codes if node.state == "quantized" else [name for name in node.outputs if name not in along]
    return _sizes(model, wanted, feed)


def _sizes(model: bytes, wanted: Iterable[str], feed: Feed) -> dict[str, int]:
    proto = onnx.load_model_from_string(model)
    known = {name for node in proto.graph.node for name in node.output} | {each.name for each in proto.graph.input}
    known -= {"", *_no_tensors(proto)}  # "" is an output that a node leaves out
    names = [name for name in dict.fromkeys(wanted) if name in known]
    for index, name in enumerate(names):
        proto.graph.node.append(onnx.helper.make_node("Size", [name], [f"{_SIZE}{index}"]))
    del proto.graph.output[:]
    for index in range(len(names)):
        kind = onnx.TensorProto.INT64
        proto.graph.output.append(onnx.helper.make_tensor_value_info(f"{_SIZE}{index}", kind, []))
    if not names:
        return {}
    options = ort.session_options(optimize=False, spinning=False)
    session = ort.inference_session(proto.SerializeToString(), options)
    return {name: int(size) for name, size in zip(names, ort.run(session, feed), strict=True)}


def _no_tensors(model: onnx.ModelProto) -> set[str]:
    """Returns the names of sequences, maps and optional values, as far as operators say what they give."""
    graph = (inferred(model, propagate=False) or model).graph
    kinds = {each.name: each.type.WhichOneof("value") for each in (*graph.value_info, *graph.output)}
    return {name for name, kind in kinds.items() if kind not in (None, "tensor_type")}


def sized_weights(graph: onnx.GraphProto, records: Records) -> dict[str, tuple[int, int]]:
    """Returns name -> elements and bits of constants of two dimensions or more, those that stay float among them."""
    found = {
        each.name: (math.prod(each.shape), bits_of(records, each.name))
        for each in records.tensors.values()
        if each.kind in ("weight", "constant") and each.shape is not None and len(each.shape) > 1
    }
    halves = {each.name for each in graph.initializer if each.data_type in _HALVES}
    decoding = {node.input[0] for node in graph.node if node.op_type == "Cast" and node.input[0] in halves}
    read = {name for node in graph.node if node.op_type not in _PAIRS for name in node.input} - decoding
    left = [each for each in graph.initializer if each.data_type in _FLOATS and len(each.dims) > 1]
    return found | {each.name: (math.prod(each.dims), _FLOAT_BITS) for each in left if each.name in read}
