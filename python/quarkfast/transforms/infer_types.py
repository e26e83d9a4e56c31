"""Type inference: types and shapes that onnx cannot infer, as ONNX Runtime tells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import onnx

from quarkfast import ort
from quarkfast.deferred import ir
from quarkfast.errors import DependencyError, ModelError, UnsupportedError
from quarkfast.graph.access import is_standard, is_untyped, mark_as_no_tensor, name_of, shape_of
from quarkfast.graph.external_constants import proto_and_folder, with_constants_as_inputs
from quarkfast.graph.schemas import keeps_shape, type_outputs
from quarkfast.graph.shape_inference import holds_map, inferred, large_tensors_aside, may_propagate, protos_of
from quarkfast.graph.subgraphs import graphs_of
from quarkfast.transforms.clean import sort

__all__ = ["infer_types", "open_outputs", "take_runtime_types"]

# Bytes from which on a constant is an input of the model that is asked: it decides no shape, and takes no memory.
_LARGE = 4096

_TYPES = {dtype.name.lower(): dtype for dtype in ir.DataType}
_ASKED = "quarkfast.asked_for_types"


def take_runtime_types(model: ir.Model) -> bool:
    """Gives what nodes of the model's own graph compute the types that ONNX Runtime finds, where they have none.

    A session is opened on the nodes, with large constants as inputs, and never run. Where ONNX Runtime does not load
    the model, and where it is not installed, types stay unknown. What it has told once, also nothing, is not asked for
    again.

    Returns:
        Whether there were any.
    """
    computed = (value for node in model.graph for value in node.outputs if value.uses() or value.is_graph_output())
    untyped = {name_of(value): value for value in computed if is_untyped(value)}
    asked: frozenset[str] = model.meta.get(_ASKED, frozenset())
    if asked.issuperset(untyped):
        return False
    model.meta[_ASKED] = asked.union(untyped)
    sort(model)  # verbs that only read a model take its nodes in any order, a copy of it does not
    try:
        outputs = _session(model, list(untyped)).get_outputs()
    except (DependencyError, ModelError, UnsupportedError):
        return False
    found = False
    for output in outputs:
        value = untyped.get(output.name)
        if value is None:
            continue
        value.type = _type(output.type)
        if value.type is None:
            mark_as_no_tensor(value)
            continue
        found = True
        producer = value.producer()
        if value.shape is None and producer is not None:
            own = producer.inputs[0].shape if keeps_shape(producer) and producer.inputs[0] is not None else None
            # No sizes are those of a scalar, and those of what nothing is known of.
            value.shape = own or (ir.Shape(output.shape) if output.shape else None)
    return found


def _session(model: ir.Model, names: list[str]) -> Any:
    constants = model.graph.initializers.values()
    large = [
        name_of(value)
        for value in constants
        if value.const_value is not None
        and value.const_value.dtype != ir.DataType.STRING
        and value.const_value.nbytes >= _LARGE
        and not value.is_graph_output()
    ]
    proto, folder = proto_and_folder(with_constants_as_inputs(model, large))
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return ort.inference_session(proto.SerializeToString(), ort.session_options(optimize=False), folder=folder)


def _type(text: str) -> ir.TypeProtocol | None:
    """Returns a type of ONNX Runtime's; None for a map, which onnx-ir has not.

    Example:
        >>> _type("seq(tensor(float))")
        Sequence(Tensor(FLOAT))
    """
    matched = re.fullmatch(r"(tensor|sparse_tensor|seq|optional)\((.*)\)", text)
    if matched is None:
        return None
    kind, inner = matched[1], matched[2]
    if kind in ("tensor", "sparse_tensor"):
        dtype = _TYPES.get(inner)
        make = ir.TensorType if kind == "tensor" else ir.SparseTensorType
        return None if dtype is None else make(dtype)
    element = _type(inner)
    return None if element is None else (ir.SequenceType if kind == "seq" else ir.OptionalType)(element)


_DECLARED = "quarkfast.declared_shapes"

# No array of NumPy has more, and a file may claim any number.
_MOST_DIMENSIONS = 64


def infer_types(model: ir.Model) -> bool:
    """Fills in types and shapes in place; what cannot be inferred stays unknown.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else; of those
    of onnxruntime whose outputs have the type of their input that is filled in, and ONNX Runtime is asked for others
    (`quarkfast.transforms.infer_types`). A Reshape to a computed shape gets as many dimensions as that has numbers,
    which onnx leaves unknown before operator set 14. `open_outputs` takes back what became known of outputs.
    Idempotent; changes no node, and returns that.
    """
    propagate = may_propagate(model)
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    while True:
        found = inferred(proto, propagate=propagate)
        if found is not None:
            _take_over(model, proto, found)
            proto = found
        if not type_outputs(model) | _rank_reshapes(model) and not take_runtime_types(model):
            return False
        _tell(model.graph, proto.graph)


def open_outputs(model: ir.Model) -> None:
    """Gives the graph's outputs the shapes back that their file declared, as far as these were open, in place.

    What a file leaves open its readers rely on, though the shapes of its inputs would tell.
    """
    declared = model.meta.pop(_DECLARED, {})
    for value in model.graph.outputs:
        value.shape = declared.get(name_of(value), value.shape)


def _rank_reshapes(model: ir.Model) -> bool:
    """Gives outputs of Reshape whose shape is unknown their number of dimensions; returns whether there were any."""
    found = False
    for node in model.graph:
        if node.op_type != "Reshape" or not is_standard(node) or node.outputs[0].shape is not None:
            continue
        wanted = node.inputs[1] if len(node.inputs) > 1 else None
        sizes = None if wanted is None or wanted.shape is None else tuple(wanted.shape)
        if sizes is not None and len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] <= _MOST_DIMENSIONS:
            node.outputs[0].shape = ir.Shape([None] * sizes[0])
            found = True
    return found


def _take_over(model: ir.Model, before: onnx.ModelProto, found: onnx.ModelProto) -> None:
    """Gives values what onnx has found, types as they are: onnx_ir's own pass makes tensors of sequences.

    Args:
        model: The model.
        before: What onnx was given, which the values have already.
        found: What it made of that.
    """
    for graph, given, typed in zip(graphs_of(model), protos_of(before.graph), protos_of(found.graph), strict=True):
        narrowed = _take_over_graph(graph, _types(given), _types(typed))
        if graph is model.graph:
            declared = {name_of(value): narrowed[name_of(value)] for value in graph.outputs if value.name in narrowed}
            model.meta[_DECLARED] = declared | model.meta.get(_DECLARED, {})


def _types(proto: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    return {info.name: info.type for info in (*proto.value_info, *proto.input, *proto.output)}


def _take_over_graph(
    graph: ir.Graph, given: Mapping[str, onnx.TypeProto], known: Mapping[str, onnx.TypeProto]
) -> dict[str, ir.Shape | None]:
    """Gives the values of `graph` the types of `known` that are others than those of `given`.

    Returns:
        What values declared of which a size is known now that was open.
    """
    narrowed: dict[str, ir.Shape | None] = {}
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and value.name not in known:
            value.shape, value.type = ir.Shape(shape_of(tensor)) or value.shape, ir.TensorType(tensor.dtype)
    outputs = (output for node in graph for output in node.outputs)
    for value in (*graph.inputs, *graph.initializers.values(), *outputs):
        found = known.get(value.name or "")
        if found is not None and found != given.get(value.name or "") and not holds_map(found):
            shape = ir.serde.deserialize_type_proto_for_shape(found)
            if shape is not None and _is_narrower(shape, value.shape):
                narrowed.setdefault(value.name or "", value.shape)
            value.shape = shape or value.shape
            value.type = ir.serde.deserialize_type_proto_for_type(found) or value.type
    return narrowed


def _is_narrower(shape: ir.Shape, declared: ir.Shape | None) -> bool:
    """Whether a size is known in `shape` that is declared open."""
    return declared is not None and any(
        isinstance(one, int) and not isinstance(other, int) for one, other in zip(shape, declared, strict=False)
    )


def _tell(graph: ir.Graph, proto: onnx.GraphProto) -> None:
    """Writes into `proto`, which was made of `graph`, what has become known since of outputs of nodes."""
    known = {info.name: info for info in (*proto.value_info, *proto.output)}
    for output in (output for node in graph for output in node.outputs):
        info = known.get(output.name or "")
        if output.name and (output.type or output.shape is not None) and (info is None or _is_partial(info)):
            told = proto.value_info.add() if info is None else info
            told.Clear()
            ir.serde.serialize_value_into(told, output)


def _is_partial(info: onnx.ValueInfoProto) -> bool:
    kind = info.type.tensor_type
    return not kind.elem_type or not kind.HasField("shape")
