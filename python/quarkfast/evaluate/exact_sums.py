"""Sessions whose 8-bit sums are exact on every processor: what a model is judged by.

Without its graph optimizations ONNX Runtime computes Q/DQ pairs as floats. With them it puts integer kernels in their
place, which on x86 processors without VNNI add pairs of uint8 x int8 products in saturating 16 bits (VPMADDUBSW).
MatMulInteger, as dynamic quantization writes it, is such a kernel already, so it becomes a product of doubles, which
hold every sum of up to 2^37 products of 8 bits. The config entry `session.x64quantprecision` is no way: onnxruntime
1.32 then refuses models whose weights two nodes share.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from quarkfast import ort
from quarkfast.evaluate.joined_pairs import join_pairs

__all__ = ["exact_session", "with_exact_products"]

_INTEGER_PRODUCT, _PAIR = b"MatMulInteger", b"QuantizeLinear"

# Bytes of a model up to which its pairs are joined: for a moment it is in memory three times.
_MOST_JOINED = 32 << 20


def exact_session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto, folder: str | os.PathLike[str] | None = None
) -> Any:
    """Opens a session that computes what a quantized model means, whatever the processor, without optimizations.

    QLinearConv, QLinearMatMul, ConvInteger and the fused operators of ONNX Runtime that a model itself contains stay as
    they are; quarkfast writes none of them with int8 weights. Q/DQ pairs of a file or of bytes run as one node each,
    which gives the same bits; an object has them if they are joined before (`quarkfast.evaluate.joined_pairs`).

    Args:
        model: Path of the model, its bytes, or the model.
        folder: Where the files are that bytes or a model refer to; a path needs none.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        ModelError: onnxruntime rejects the model.
        DependencyError: onnxruntime is missing or too old.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> images = load_images()
        >>> result = quarkfast.quantize(MODEL, preset="U8S8", calibration_data=images.calibration)
        >>> exact_session(result.model_bytes).run(None, {"image": images.test})[0].shape
        (500, 10)
    """
    options = ort.session_options(optimize=False, spinning=False, arena=False)
    is_object = isinstance(model, onnx.ModelProto)
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    if not isinstance(source, bytes) and folder is None:
        folder = Path(source).parent
    return ort.inference_session(_exact_source(source, may_join=not is_object), options, folder=folder)


def with_exact_products(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy of a model in which every MatMulInteger is a product of doubles, in bodies and functions too.

    The zero point of the left operand is taken to be one number, as ONNX Runtime wants it.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for owner in (found.graph, *found.functions):
        _rewrite(owner)
    return found


def _exact_source(source: str | os.PathLike[str] | bytes, *, may_join: bool) -> str | os.PathLike[str] | bytes:
    """Returns a model without integer products, its external data left in files, and where it may, with joined pairs.

    One that has neither is returned as it is.
    """
    data = source
    if not isinstance(data, bytes):
        data = Path(data).read_bytes() if Path(data).is_file() else b""
    has_products, may_join = _INTEGER_PRODUCT in data, may_join and _PAIR in data and len(data) <= _MOST_JOINED
    if not has_products and not may_join:
        return source
    try:
        proto = onnx.load_model_from_string(data)
    except DecodeError:
        return source  # ONNX Runtime says what is wrong with it
    joined = may_join and join_pairs(proto)
    if has_products:
        proto = with_exact_products(proto)
    return proto.SerializeToString() if joined or has_products else source


def _rewrite(owner: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Rewrites the nodes of a graph or a function in place."""
    nodes = list(owner.node)
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            _rewrite(body)
    if any(_is_integer_product(node) for node in nodes):
        found = [new for node in nodes for new in (_exact(node) if _is_integer_product(node) else [node])]
        # A copy: the list holds messages that lie in the field that is cleared.
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in found]
        del owner.node[:]
        owner.node.extend(copies)


def _is_integer_product(node: onnx.NodeProto) -> bool:
    return node.op_type == _INTEGER_PRODUCT.decode() and node.domain in ("", "ai.onnx")


def _exact(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Returns Casts, Subs and a MatMul of doubles that compute what a MatMulInteger computes."""
    nodes: list[onnx.NodeProto] = []
    output, inputs = node.output[0], [*node.input, "", ""]

    def add(op_type: str, names: list[str], suffix: str) -> str:
        name = f"{output}_exact_{suffix}" if suffix else output
        made = onnx.helper.make_node(op_type, names, [name], f"{node.name}_exact_{suffix}")
        if op_type == "Cast":
            kind = onnx.TensorProto.DOUBLE if suffix else onnx.TensorProto.INT32
            made.attribute.append(onnx.helper.make_attribute("to", kind))
        nodes.append(made)
        return name

    operands = []
    for side, codes, zero_point in (("a", inputs[0], inputs[2]), ("b", inputs[1], inputs[3])):
        operand = add("Cast", [codes], side)
        if zero_point:
            operand = add("Sub", [operand, add("Cast", [zero_point], f"{side}_zero")], f"{side}_centred")
        operands.append(operand)
    add("Cast", [add("MatMul", operands, "product")], "")
    return nodes
