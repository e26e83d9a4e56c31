"""Biases and weights in float, in a form that onnxruntime leaves in float beside quantized tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop
from quarkfast.graph.operators import BIASED_LAYERS, RUNTIME_DROPPERS
from quarkfast.graph.opset import opset_version
from quarkfast.graph.walks import moved_from
from quarkfast.quantization.bias import HEADROOM

__all__ = ["keep_floats"]

_BYTES = frozenset({ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT8, ir.DataType.UINT8})
_CHANNELS = 13  # the first operator set whose DequantizeLinear has an axis

# Codes below 2^30 hold the 24 bits of a float32; 2^-126 is the least scale that is a normal number.
_BITS = 30
_LOWEST = -126
_HALF_BITS, _HALF_LOWEST = 11, -24  # of float16, whose least scale is subnormal: the codes are its steps


def keep_floats(model: ir.Model, *, half: bool = False) -> None:
    """Lets a DequantizeLinear give the biases that onnxruntime would turn into something else, in place.

    Its WeightBiasQuantization makes a constant float bias of a Conv, ConvTranspose or Gemm int32 at ``s_x * s_w``, and
    a constant float weight int8 with one scale, where a DequantizeLinear stands in front of the layer (1.21) and a
    QuantizeLinear behind it as well (1.22 and newer). It leaves a layer alone whose bias is no constant. So a bias is
    written as int32 codes with a DequantizeLinear of their own

    1. where the weight is float: the user excluded the layer, the target has no rule for it, or a Cast gives the
       weight. A layer without a bias gets one of zeros;
    2. where the weight has codes of more than 8 bits, or ``bias / (s_x * s_w)`` leaves int32 no headroom: INT16 weights
       beside UINT16 activations lost 27 dB to biases that saturated.

    The same goes for a MatMul with an Add behind it, of which onnxruntime makes a Gemm first. Where weights and
    activations have 8 bits a float bias stays as it is, so that the integer kernel takes it.

    Codes have 30 bits and scales are powers of two, one for each channel, which give the same floats back. Below
    operator set 13 there is one for all: 2^-31 of the largest bias is lost.

    A model that becomes `half` precision gets that for every float bias: onnxruntime 1.32 writes its division of a
    float16 bias by ``s_x * s_w`` in float16, where what is above 65504 is infinite. Codes have 11 bits, as float16.
    """
    builder, per_channel = GraphBuilder(model), opset_version(model) >= _CHANNELS
    for node in tuple(model.graph):
        layer, index = _layer(node)
        scale = None if layer is None else _scale(layer.inputs[0])
        if layer is None or scale is None:
            continue
        bias = node.inputs[index] if index < len(node.inputs) else None
        values = _folded(bias)
        if (bias is not None and (values is None or values.ndim != 1)) or not _is_changed(layer, scale, values, half):
            continue
        if values is None:
            values = np.zeros(_channels(layer), np.float32)
        stem = name_of(bias) or f"{name_of(node)}_bias"
        decoder = _decoder(builder, stem, values, per_channel, half)
        model.graph.insert_before(node, decoder)
        node.resize_inputs(max(len(node.inputs), index + 1))
        node.replace_input_with(index, decoder.outputs[0])
        if bias is not None:
            drop(model.graph, bias)


def _layer(node: ir.Node) -> tuple[ir.Node | None, int]:
    """Returns the layer whose sum gets its bias in `node`, or None, and which input of `node` the bias is."""
    if not is_standard(node):
        return None, 0
    if node.op_type in BIASED_LAYERS:
        return node, 2
    for index, value in enumerate(node.inputs if node.op_type == "Add" else ()):
        product = None if value is None or not is_read_once(value) else value.producer()
        if product is not None and product.op_type == "MatMul" and is_constant(node.inputs[1 - index]):
            return product, 1 - index
    return None, 0


def _scale(value: ir.Value | None) -> NDArray[np.float32] | None:
    """Returns the scale of the DequantizeLinear that `value` comes from, or None."""
    *_, origin = None, *moved_from(value, RUNTIME_DROPPERS)
    source = None if origin is None else origin.producer()
    if source is None or source.op_type != "DequantizeLinear" or not is_constant(source.inputs[1]):
        return None
    found: NDArray[np.float32] = array_of(source.inputs[1])
    return found


def _is_changed(layer: ir.Node, scale: NDArray[np.float32], bias: NDArray[np.float32] | None, half: bool) -> bool:
    """Whether onnxruntime would round a weight or bias of `layer`, whose input has that scale, otherwise than said."""
    weight = layer.inputs[1]
    if _is_folded(weight):
        return layer.op_type != "MatMul" or bias is not None
    decoder = None if weight is None else weight.producer()
    if bias is None or decoder is None or decoder.op_type != "DequantizeLinear":
        return False
    codes = decoder.inputs[0]
    if half or codes is None or codes.dtype not in _BYTES:
        return True
    steps = np.multiply(scale, array_of(decoder.inputs[1]), dtype=np.float64)
    return bool((np.abs(bias) >= HEADROOM * np.resize(steps, bias.shape)).any())


def _is_folded(value: ir.Value | None) -> bool:
    """Whether onnxruntime computes `value` once: a constant, or a Cast of one, with its scale or without."""
    waiting = [value]
    seen = {value}
    while waiting:
        value = waiting.pop()
        source = None if value is None or is_constant(value) else value.producer()
        if source is not None and is_standard(source) and source.op_type in ("Cast", "Mul"):
            waiting += [each for each in source.inputs if each not in seen]
            seen.update(source.inputs)
        elif source is not None or not is_constant(value):
            return False
    return True


def _folded(value: ir.Value | None) -> NDArray[np.float32] | None:
    """Returns what onnxruntime computes once as float32; None for everything else."""
    if value is None or not _is_folded(value) or value.dtype != ir.DataType.FLOAT:
        return None
    source = None if is_constant(value) else value.producer()
    if source is None:
        return array_of(value)
    if source.op_type == "Cast":
        return array_of(source.inputs[0]).astype(np.float32)
    codes, scale = (_folded(each) for each in source.inputs)
    return None if codes is None or scale is None else codes * scale


def _channels(layer: ir.Node) -> int:
    """Returns the number of output channels of a layer, whose weight has a known shape."""
    weight = layer.inputs[1]
    shape = () if weight is None or weight.shape is None else weight.shape.numpy()
    if layer.op_type == "ConvTranspose":
        return int(shape[1]) * layer.attributes.get_int("group", 1)
    first = layer.op_type == "Conv" or bool(layer.attributes.get_int("transB", 0))
    return int(shape[0 if first else 1])


def _decoder(builder: GraphBuilder, stem: str, values: NDArray[np.float32], per_channel: bool, half: bool) -> ir.Node:
    """Returns a DequantizeLinear that gives `values`, and registers what it reads."""
    magnitude = np.abs(values) if per_channel else np.abs(values).max(initial=0)
    exponent = np.where(magnitude > 0, np.frexp(magnitude)[1], 0)
    bits, lowest = (_HALF_BITS, _HALF_LOWEST) if half else (_BITS, _LOWEST)
    scale = np.ldexp(1.0, np.maximum(exponent - bits, lowest)).astype(np.float32)
    codes = np.rint(values / scale.astype(np.float64)).astype(np.int32)
    stored = (codes, "quantized"), (scale, "quantized_scale"), (np.zeros(scale.shape, np.int32), "quantized_zero_point")
    inputs = [builder.initializer(f"{stem}_{ending}", array) for array, ending in stored]
    node = ir.node("DequantizeLinear", inputs, {"axis": 0} if per_channel else {})
    builder.call(node, f"{stem}_DequantizeLinear")
    node.outputs[0].shape, node.outputs[0].dtype = ir.Shape(values.shape), ir.DataType.FLOAT
    return node
