"""Pairs of signed 8-bit codes, in a form to which onnxruntime adds none of its own."""

from __future__ import annotations

import math

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
from quarkfast.graph.operators import RUNTIME_MOVERS
from quarkfast.graph.opset import opset_version
from quarkfast.graph.rewriting import splice
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["keep_signed"]

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
