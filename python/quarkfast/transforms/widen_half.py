"""A model that computes in float16 becomes one that computes in float32, with the inputs and outputs it had."""

from __future__ import annotations

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.notes import add_note
from quarkfast.graph.rewriting import splice
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.transforms.infer_types import infer_types

__all__ = ["widen_half"]

_WIDENED = "the model was float16: it computes in float32 now, and its inputs and outputs keep their types"

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT

_MOVES = frozenset(
    {"Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Tile",
     "Transpose", "Unsqueeze"}
)  # fmt: skip

# Attributes that name the type of an output: of Cast, of random generators and EyeLike, of the newer Q and DQ.
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def widen_half(model: ir.Model) -> bool:
    """Rewrites a float16 model to float32, in place; returns whether it was one.

    1. It is one if an operator of the standard computes in float16 (Casts and what moves values do not), in the model's
       own graph, and no operator of another domain reads or gives it.
    2. Initializers and constants of float16 become float32 of the same values; so do the types of tensors, and the
       types that attributes name.
    3. Graph inputs and outputs keep names and types; each of float16 gets a Cast behind or in front of it.

    Quantizers' operators take float32 scales, and their arithmetic is float32 on every target. Idempotent. Error:
    none in the values of constants; results are more precise by what float16 rounded between operators.
    """
    if not _may_be_half(model):
        return False
    infer_types(model)
    giving = [node for node in model.graph if any(value.dtype == _HALF for value in node.outputs)]
    reading = [node for node in model.graph if any(value is not None and value.dtype == _HALF for value in node.inputs)]
    if all(node.op_type in _MOVES for node in giving) or not all(map(is_standard, (*giving, *reading))):
        return False
    builder = GraphBuilder(model)
    handed_out = [value for value in model.graph.outputs if value.dtype == _HALF and not value.is_graph_input()]
    for graph in graphs_of(model):
        _widen_constants(graph)
        for value in graph.inputs if graph is not model.graph else ():
            _widen(value)
        for node in graph:
            _widen_node(node)
    for value in model.graph.inputs:
        if value.dtype == _HALF and value.uses():
            cast = _cast(value, _FLOAT, f"{name_of(value)}_float32", builder)
            splice(model.graph, value, (cast,), cast.outputs[0], "")
    for value in dict.fromkeys(handed_out):
        inner = builder.fresh(f"{name_of(value)}_float32")
        cast = _cast(value, _HALF, inner, builder)
        splice(model.graph, value, (cast,), cast.outputs[0], inner, readers=())
    add_note(model, _WIDENED)
    return True


def _may_be_half(model: ir.Model) -> bool:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    return any(value.dtype == _HALF for value in values) or any(map(_gives_half, model.graph))


def _gives_half(node: ir.Node) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to") == _HALF


def _widen_constants(graph: ir.Graph) -> None:
    for value in graph.initializers.values():
        if is_constant(value) and value.dtype == _HALF:
            value.const_value = ir.Tensor(array_of(value).astype(np.float32), name=value.name)
            value.dtype = _FLOAT


def _widen(value: ir.Value) -> None:
    if value.dtype == _HALF:
        value.dtype = _FLOAT


def _widen_node(node: ir.Node) -> None:
    for value in node.outputs:
        _widen(value)
    for name in _TYPE_ATTRIBUTES:
        if name in node.attributes and node.attributes.get_int(name) == int(_HALF):
            node.attributes[name] = ir.AttrInt64(name, int(_FLOAT))
    for attribute in tuple(node.attributes.values()):
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == _HALF:
            wide = ir.Tensor(attribute.as_tensor().numpy().astype(np.float32))
            node.attributes[attribute.name] = ir.AttrTensor(attribute.name, wide)


def _cast(value: ir.Value, to: ir.DataType, name: str, builder: GraphBuilder) -> ir.Node:
    node = ir.node("Cast", [value], {"to": int(to)}, name=builder.fresh(f"{name_of(value)}_Cast"))
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = builder.fresh(name), to, value.shape
    return node
