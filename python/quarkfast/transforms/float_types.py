"""Floating-point types: a model that computes in one becomes one that computes in another."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.opset import opset_version
from quarkfast.graph.rewriting import splice
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["change_float_type"]

# Attributes that name the type of an output: of Cast, of random generators and EyeLike, of the newer Q and DQ.
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")

_ARRAYS = {
    ir.DataType.FLOAT: np.float32,
    ir.DataType.FLOAT16: np.float16,
    ir.DataType.BFLOAT16: ml_dtypes.bfloat16,
}


def change_float_type(model: ir.Model, old: ir.DataType, new: ir.DataType, *, keep_ends: bool) -> None:
    """Has `model`, whose types are known, compute in `new` wherever it computed in `old`, in place.

    1. Initializers and constants become `new`; so do the types of tensors, and the types that attributes name.
    2. An input for which the operator takes `old` alone (scales of Resize) stays as it is: a constant keeps its type,
       anything else gets a Cast in front. An operator that does not take `new` at all computes in `old`, between Casts.
    3. With `keep_ends` graph inputs and outputs keep their types; each gets a Cast behind or in front of it. Without,
       they become `new`.

    Error: none from a narrower type to a wider one; otherwise one rounding of each constant, half to even.
    """
    builder, ends = GraphBuilder(model), model.graph
    handed_out = [value for value in ends.outputs if value.dtype == old and not value.is_graph_input()]
    stay = {node for graph in graphs_of(model) for node in graph if not _takes(node, opset_version(model), new)}
    fixed = _fixed_inputs(model, old, stay)
    kept = {value for node, index in fixed if is_constant(value := node.inputs[index]) and value is not None}
    shared = {value for value in kept if any((node, index) not in fixed for node, index in value.uses())}
    for graph in graphs_of(model):
        _change_constants(graph, old, new, kept - shared)
        for value in graph.inputs if graph is not ends or not keep_ends else ():
            _change(value, old, new)
        for node in graph:
            if node not in stay:
                _change_node(node, old, new)
    for node in stay:
        _cast_results(node, old, new, builder, ends if keep_ends else None)
    handed_out = [value for value in handed_out if value.producer() not in stay]
    for node, index in fixed:
        value = node.inputs[index]
        if value is not None and value.dtype == new:
            _cast_for(node, index, value, old, builder)
    if keep_ends:
        _cast_ends(model, handed_out, (old, new), fixed, builder)


def _word(dtype: ir.DataType) -> str:
    """Returns what tensors of a type are called after."""
    return str(np.dtype(_ARRAYS[dtype]).name)


def _takes(node: ir.Node, version: int, dtype: ir.DataType) -> bool:
    """Whether the operator of `node` may compute in `dtype`, as far as is known."""
    schema = _schema(node, version)
    if schema is None or node.op_type == "Cast":
        return True
    allowed = {each.type_param_str: set(each.allowed_type_strs) for each in schema.type_constraints}
    variables = [allowed[each.type_str] for each in (*schema.inputs, *schema.outputs) if each.type_str in allowed]
    floats = [words for words in variables if "tensor(float)" in words]
    return all(f"tensor({dtype.name.lower()})" in words for words in floats)


def _schema(node: ir.Node, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(node.op_type, version, "") if is_standard(node) else None
    except onnx.defs.SchemaError:
        return None


def _fixed_inputs(model: ir.Model, old: ir.DataType, stay: set[ir.Node]) -> set[tuple[ir.Node, int]]:
    """Returns the inputs that hold `old` and must go on to."""
    version, word = opset_version(model), f"tensor({old.name.lower()})"
    found = set()
    for node in (node for graph in graphs_of(model) for node in graph):
        schema = _schema(node, version)
        formal = () if schema is None else schema.inputs
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype != old:
                continue
            if node in stay or (index < len(formal) and formal[index].type_str == word):
                found.add((node, index))
    return found


def _cast_results(
    node: ir.Node, old: ir.DataType, new: ir.DataType, builder: GraphBuilder, kept: ir.Graph | None
) -> None:
    """Has what reads a node that stays in `old` read `new`; outputs of the graph `kept` stay as they are."""
    for value in node.outputs:
        graph, handed_out = node.graph, value.is_graph_output()
        stays = handed_out and graph is kept
        if value.dtype != old or not isinstance(graph, ir.Graph) or (stays and not value.uses()):
            continue
        cast = _cast(value, new, f"{name_of(value)}_{_word(new)}", builder)
        inner = "" if stays else builder.fresh(f"{name_of(value)}_{_word(old)}")
        splice(graph, value, (cast,), cast.outputs[0], inner)


def _change_constants(graph: ir.Graph, old: ir.DataType, new: ir.DataType, kept: set[ir.Value]) -> None:
    for value in graph.initializers.values():
        if is_constant(value) and value.dtype == old and value not in kept:
            value.const_value = ir.Tensor(_converted(array_of(value), new), name=value.name)
            value.dtype = new


def _converted(array: NDArray[Any], new: ir.DataType) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # what float16 has no number for is infinite in it
        return array.astype(_ARRAYS[new])


def _change(value: ir.Value, old: ir.DataType, new: ir.DataType) -> None:
    if value.dtype == old:
        value.dtype = new


def _change_node(node: ir.Node, old: ir.DataType, new: ir.DataType) -> None:
    for value in node.outputs:
        _change(value, old, new)
    for name in _TYPE_ATTRIBUTES:
        if name in node.attributes and node.attributes.get_int(name) == int(old):
            node.attributes[name] = ir.AttrInt64(name, int(new))
    for attribute in tuple(node.attributes.values()):
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == old:
            other = ir.Tensor(_converted(attribute.as_tensor().numpy(), new))
            node.attributes[attribute.name] = ir.AttrTensor(attribute.name, other)


def _cast_for(node: ir.Node, index: int, value: ir.Value, old: ir.DataType, builder: GraphBuilder) -> None:
    assert node.graph is not None
    cast = _cast(value, old, f"{name_of(value)}_{_word(old)}", builder)
    node.graph.insert_before(node, cast)
    node.replace_input_with(index, cast.outputs[0])


def _cast_ends(
    model: ir.Model,
    handed_out: list[ir.Value],
    types: tuple[ir.DataType, ir.DataType],
    fixed: set[tuple[ir.Node, int]],
    builder: GraphBuilder,
) -> None:
    old, new = types
    inner_name = f"_{_word(new)}"
    for value in model.graph.inputs:
        readers = [(node, index) for node, index in value.uses() if (node, index) not in fixed]
        if value.dtype == old and readers:
            cast = _cast(value, new, f"{name_of(value)}{inner_name}", builder)
            splice(model.graph, value, (cast,), cast.outputs[0], "", readers)
    for value in dict.fromkeys(handed_out):
        inner = builder.fresh(f"{name_of(value)}{inner_name}")
        cast = _cast(value, old, inner, builder)
        splice(model.graph, value, (cast,), cast.outputs[0], inner, readers=())


def _cast(value: ir.Value, to: ir.DataType, name: str, builder: GraphBuilder) -> ir.Node:
    node = ir.node("Cast", [value], {"to": int(to)}, name=builder.fresh(f"{name_of(value)}_Cast"))
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = builder.fresh(name), to, value.shape
    return node
