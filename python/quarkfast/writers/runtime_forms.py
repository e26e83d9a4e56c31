"""Forms of biases, weights, sums and signed pairs that onnxruntime leaves as they are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import (
    array_of,
    graph_of,
    is_constant,
    is_read_once,
    is_standard,
    name_of,
    shape_of,
    tensor_of,
)
from quarkfast.graph.builder import GraphBuilder, drop
from quarkfast.graph.functions import find_normalization
from quarkfast.graph.operators import BIASED_LAYERS, RUNTIME_DROPPERS, RUNTIME_MOVERS
from quarkfast.graph.opset import opset_version
from quarkfast.graph.rewriting import splice
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.graph.walks import moved_from
from quarkfast.quantization.bias import HEADROOM

__all__ = ["keep_floats", "keep_signed", "keep_sums"]

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


def keep_sums(model: ir.Model) -> None:
    """Makes each Add that a layer normalization reads a Sum, in place, which computes the same bits.

    onnxruntime fuses the two into a SkipLayerNormalization if the first is an Add. That of 1.31 adds up each row number
    by number: 5.6 ms for ``[32, 64, 384]`` with one thread, where a Sum and a LayerNormalization take 1.8 ms; that of
    1.22 and 1.25 takes 1.4 ms beside 1.9. A sentence encoder in U8S8 takes 16 % less time so, in
    DYNAMIC 14 %.
    """
    for node in model.graph:
        for found in map(find_normalization, node.outputs):
            source = None if found is None or found.source is None else found.source.producer()
            if source is not None and is_standard(source) and source.op_type == "Add":
                source.op_type = "Sum"


_OUTPUT_TYPE = 21  # the first operator set whose QuantizeLinear has an attribute for the type of its codes


def keep_signed(model: ir.Model) -> None:
    """Keeps onnxruntime from adding pairs of int8 codes behind those of a model, in place.

    Its QDQPropagationTransformer moves a DequantizeLinear with one scale behind a node that moves data, with a pair of
    its own: from operator set 21 on its QuantizeLinear says INT8 as ``output_dtype`` (1.27 to 1.32). On x86 its
    QDQS8ToU8Transformer makes int8 pairs uint8 and leaves that attribute, and the session does not open at the levels
    EXTENDED, LAYOUT and ALL. So, from that operator set on,

    1. a node that moves data has a pair with the same scale behind it, which computes the same bits, where it has none;
    2. a MatMul of another rank than two, of which onnxruntime makes a Gemm between two Reshapes if an Add of a vector
       follows, gets that vector as a matrix of one row, which a Gemm of such a MatMul does not take. One that is no
       constant is added by a Sum, and so is one behind a MatMul of a vector, which has no rows.
    """
    if opset_version(model) < _OUTPUT_TYPE:
        return
    builder = GraphBuilder(model)
    waiting = [node for graph in graphs_of(model) for node in graph if _is_signed(node)]
    while waiting:
        decoder = waiting.pop()
        for reader in [reader for reader, index in decoder.outputs[0].uses() if index == 0 and is_standard(reader)]:
            if reader.op_type in RUNTIME_MOVERS and not any(_quantizes(each) for each, _ in reader.outputs[0].uses()):
                waiting.append(_pair_behind(builder, reader.outputs[0], decoder))
            elif reader.op_type == "MatMul" and _rank(decoder.outputs[0]) != 2:
                _keep_apart(builder, reader)


def _is_signed(node: ir.Node) -> bool:
    """Whether `node` decodes int8 codes with one scale, as the operator set has it."""
    if not is_standard(node) or node.op_type != "DequantizeLinear" or len(node.inputs) < 3:
        return False
    zero_point = node.inputs[2]
    if zero_point is None or not is_constant(zero_point) or zero_point.dtype != ir.DataType.INT8:
        return False
    return math.prod(shape_of(tensor_of(zero_point))) == 1


def _quantizes(node: ir.Node) -> bool:
    return node.op_type == "QuantizeLinear"


def _pair_behind(builder: GraphBuilder, value: ir.Value, decoder: ir.Node) -> ir.Node:
    """Puts a pair with the scale of `decoder` behind `value`, and returns its second node."""
    name, given = name_of(value), decoder.inputs[1:]
    quantize = builder.call(ir.node("QuantizeLinear", [value, *given]), f"{name}_QuantizeLinear")
    quantize.outputs[0].dtype, quantize.outputs[0].shape = ir.DataType.INT8, value.shape
    decode = builder.call(ir.node("DequantizeLinear", [quantize.outputs[0], *given]), f"{name}_DequantizeLinear")
    decode.outputs[0].type, decode.outputs[0].shape = decoder.outputs[0].type, value.shape
    inner = builder.fresh(f"{name}_QuantizeLinear_Input") if value.is_graph_output() else ""
    splice(graph_of(value), value, (quantize, decode), decode.outputs[0], inner)
    return decode


def _keep_apart(builder: GraphBuilder, product: ir.Node) -> None:
    """Keeps a matrix product apart from the Add of a vector behind it, if that alone reads it."""
    result = product.outputs[0]
    add, index = next(iter(result.uses()), (product, 0))
    if not is_read_once(result) or not is_standard(add) or add.op_type != "Add":
        return
    bias = add.inputs[1 - index]
    if bias is None or _rank(bias) != 1:
        return
    if not is_constant(bias) or _rank(product.inputs[0]) < 2:
        add.op_type = "Sum"
        return
    add.replace_input_with(1 - index, builder.initializer(f"{name_of(bias)}_row", array_of(bias)[None]))
    drop(builder.graph, bias)


def _rank(value: ir.Value | None) -> int:
    """Returns the number of dimensions of `value`; 0 where it is not known."""
    return 0 if value is None or value.shape is None else len(value.shape)
