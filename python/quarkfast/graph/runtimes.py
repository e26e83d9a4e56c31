"""What some releases of onnxruntime make of a quantized model on CPUs otherwise than it says, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of, rank_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["runtime_notes"]

_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})

_NIBBLES = frozenset({ir.DataType.INT4, ir.DataType.UINT4})

_ROUNDED = (
    "onnxruntime {release} rounds what such a product reads to 8 bits on CPUs (MatMulNBits); with the session "
    "option session.qdq_matmulnbits_accuracy_level at 1 it does not"
)
_REFUSED = (
    "onnxruntime before 1.27 refuses uint8 weights with a zero point for each channel (QLinearConv); "
    "weight_symmetric gives them one"
)

_BYTE_PRODUCT = "onnxruntime before 1.23 has no MatMulNBits of 8 bits on CPUs and refuses the model; INT8_WO runs there"

_UNKNOWN = (
    "onnxruntime before 1.19 has no types of 4 bits and refuses the model; MATMUL_NBITS and types of 8 bits run there"
)


def runtime_notes(model: ir.Model) -> tuple[str, ...]:
    """Returns what the summary says about releases of onnxruntime, one sentence for each cause.

    1. From 1.25 on onnxruntime makes a MatMulNBits of a MatMul or Gemm whose weight, of two dimensions, a
       DequantizeLinear gives from 8-bit codes with one scale a tensor or output channel; where another DequantizeLinear
       gives the activations, from 1.32 on. By default that operator rounds activations to 8 bits in blocks of 32:
       a sentence encoder in INT8_WO has 25.5 dB in place of 27.3, and takes 28 % less time. 1.32 does so with groups of
       4 bits too.
    2. Before 1.27 its QLinearConv takes one zero point for all channels of a weight.
    3. Before 1.23 its MatMulNBits has codes of 4 bits alone on CPUs.
    4. Before 1.19 it has neither int4 nor uint4.
    """
    found: dict[str, list[str]] = {}
    for node in (each for graph in graphs_of(model) for each in graph):
        if release := _rounded_from(node):
            found.setdefault(_ROUNDED.format(release=release), []).append(name_of(node))
        if _has_zero_points(node):
            found.setdefault(_REFUSED, []).append(name_of(node))
        if node.op_type == "MatMulNBits" and node.attributes.get_int("bits", 4) == 8:
            found.setdefault(_BYTE_PRODUCT, []).append(name_of(node))
        if _has_nibbles(node):
            found.setdefault(_UNKNOWN, []).append(name_of(node))
    return tuple(_sentences(found))


def _sentences(found: Mapping[str, list[str]]) -> list[str]:
    others = {text: f" and {len(names) - 1} more" if len(names) > 1 else "" for text, names in found.items()}
    return [f"node {names[0]!r}{others[text]}: {text}" for text, names in sorted(found.items())]


def _has_nibbles(node: ir.Node) -> bool:
    """Whether `node` decodes codes of 4 bits."""
    codes = node.inputs[0] if is_standard(node) and node.op_type == "DequantizeLinear" else None
    return codes is not None and codes.dtype in _NIBBLES


def _has_zero_points(node: ir.Node) -> bool:
    """Whether `node` is a Conv of 8-bit codes whose unsigned weight has more than one zero point."""
    if not is_standard(node) or node.op_type != "Conv":
        return False
    decoder, source = _decoder(node, 1), _decoder(node, 0)
    if decoder is None or source is None or len(decoder.inputs) < 3 or not is_constant(decoder.inputs[2]):
        return False
    bytes_alone = all(each.inputs[0] is not None and each.inputs[0].dtype in _BYTES for each in (decoder, source))
    return bytes_alone and bool(np.ptp(array_of(decoder.inputs[2]).astype(np.int32)))


def _rounded_from(node: ir.Node) -> str:
    """Returns the releases of onnxruntime that round what `node` reads, or nothing."""
    if not is_standard(node) or node.op_type not in ("Gemm", "MatMul") or not _is_plain(node):
        return ""
    decoder, source = _decoder(node, 1), _decoder(node, 0)
    codes = None if decoder is None else decoder.inputs[0]
    if decoder is None or codes is None or not is_constant(codes) or rank_of(codes) != 2:
        return ""
    if len(decoder.outputs[0].uses()) != 1 or codes.dtype not in _BYTES | _NIBBLES:
        return ""
    if codes.dtype in _NIBBLES:
        return "1.32" if "block_size" in decoder.attributes and source is None else ""
    if source is None:
        return "from 1.25 on"
    read = source.inputs[0]
    return (
        "" if read is None or read.dtype in _BYTES else "from 1.32 on"
    )  # 8-bit codes on both sides are multiplied as such


def _is_plain(node: ir.Node) -> bool:
    """Whether a product neither transposes nor scales anything."""
    numbers = node.attributes
    transposed = any(numbers.get_int(name, 0) for name in ("transA", "transB"))
    return not transposed and all(numbers.get_float(name, 1.0) == 1 for name in ("alpha", "beta"))


def _decoder(node: ir.Node, index: int) -> ir.Node | None:
    """Returns the DequantizeLinear that an input of `node` comes from, or None."""
    value = node.inputs[index]
    source = None if value is None else value.producer()
    return source if source is not None and source.op_type == "DequantizeLinear" and is_standard(source) else None
