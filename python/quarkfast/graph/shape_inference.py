"""Shape inference of onnx: on protobufs, without large weights, beside types of maps and shapes that files declare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import array_of, shape_of
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = [
    "DEADLY",
    "FAILURES",
    "Aside",
    "bring_back",
    "drop_stale_shapes",
    "holds_map",
    "inferred",
    "keep_map_types",
    "large_tensors_aside",
    "may_propagate",
    "protos_of",
    "restore_map_types",
    "without_map_types",
]

_KEY = "quarkfast.map_types"


def without_map_types(proto: onnx.ModelProto, where: str) -> tuple[onnx.ModelProto, dict[str, onnx.TypeProto]]:
    """Returns `proto` with no type for what holds maps, and the types of those outputs; `proto` stays as it is.

    Runtimes infer them of the operator that makes the map.

    Raises:
        ModelError: If an input holds maps, of which no sample can be read.
    """
    graph = proto.graph
    for value in graph.input:
        if holds_map(value.type):
            got = f"{value.name!r}, which is a map"
            raise ModelError(f"{where}: expected tensors for inputs, got {got}; export it without its vectorizer")
    kept = {value.name: value.type for value in graph.output if holds_map(value.type)}
    if not kept and not any(holds_map(value.type) for value in graph.value_info):
        return proto, {}
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for value in (*result.graph.output, *result.graph.value_info):
        if holds_map(value.type):
            value.ClearField("type")
    return result, kept


def keep_map_types(model: ir.Model, types: dict[str, onnx.TypeProto]) -> None:
    """Has `model` keep the types of outputs that hold maps."""
    if types:
        model.meta[_KEY] = types


def restore_map_types(model: ir.Model, proto: onnx.ModelProto) -> onnx.ModelProto:
    """Gives the outputs of `proto`, which was made of `model`, the types that hold maps, and returns it."""
    types: dict[str, onnx.TypeProto] = model.meta.get(_KEY, {})
    for value in proto.graph.output:
        if value.name in types and not value.HasField("type"):
            value.type.CopyFrom(types[value.name])
    return proto


def holds_map(kind: onnx.TypeProto) -> bool:
    """Whether a type is a map, or a sequence or an optional of one."""
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        inner = kind.WhichOneof("value")
        kind = kind.sequence_type.elem_type if inner == "sequence_type" else kind.optional_type.elem_type
    return bool(kind.WhichOneof("value") == "map_type")


# Bytes from which on onnx sees only that a constant exists; what it looks at are scales and shapes.
_LARGE = 4096


@dataclass(frozen=True, slots=True)
class Aside:
    """Large constants.

    Attributes:
        by_location: By the location in the reference that stands for each.
        by_place: By the number of the graph and the name.
    """

    by_location: dict[str, ir.TensorProtocol] = field(default_factory=dict)
    by_place: dict[tuple[int, str], ir.TensorProtocol] = field(default_factory=dict)


@contextmanager
def large_tensors_aside(model: ir.Model) -> Iterator[Aside]:
    """Puts references in the place of large constants, and values in the place of small ones that lie in files.

    Because a protobuf holds 2 GiB, and onnx opens no files. Yields what the references stand for; at the end `model`
    has its constants back.
    """
    given, aside = dict[ir.Value, ir.TensorProtocol](), Aside()
    for number, graph in enumerate(graphs_of(model)):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype == ir.DataType.STRING:
                continue
            if tensor.nbytes < _LARGE:
                if isinstance(tensor, ir.ExternalTensor):
                    given[value] = tensor
                    value.const_value = ir.Tensor(np.array(array_of(value)), dtype=tensor.dtype, name=value.name)
                continue
            given[value] = tensor
            location = f"aside_{len(aside.by_location)}"
            aside.by_location[location] = aside.by_place[number, value.name or ""] = tensor
            value.const_value = ir.ExternalTensor(
                location, 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(shape_of(tensor)), name=value.name or ""
            )
    try:
        yield aside
    finally:
        for value, tensor in given.items():
            value.const_value = tensor


def bring_back(model: ir.Model, aside: Aside) -> None:
    """Puts large tensors in their place again, in a model that was made of one with large tensors aside.

    onnx 1.17 drops references while it converts, and leaves tensors of the same name and size without numbers.
    """
    for number, graph in enumerate(graphs_of(model)):
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                value.const_value = aside.by_location[str(tensor.location)]
            elif tensor is not None and tensor.nbytes >= _LARGE and (number, name) in aside.by_place:
                value.const_value = aside.by_place[number, name]


# No real dimension is larger; tables of words have some 2^18 rows.
_LARGEST = 1 << 24

#: Operators at which onnx 1.23 ends the process if it does not know the type of their input: behind a custom operator.
DEADLY = frozenset({"RegexFullMatch"})

#: What onnx raises where a model contradicts itself.
FAILURES = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)


def inferred(proto: onnx.ModelProto, *, propagate: bool) -> onnx.ModelProto | None:
    """Returns the model with the types and shapes that onnx can tell, or None where it cannot be asked.

    That is where the model contradicts itself, or has an operator of `DEADLY`.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else.

    Args:
        proto: Less than 2 GiB; large constants may be references.
        propagate: Whether onnx follows the values of small integer tensors, from which shapes are made.
    """
    if any(node.op_type in DEADLY for graph in protos_of(proto.graph) for node in graph.node):
        return None
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=propagate)
    except FAILURES:
        return None


def may_propagate(model: ir.Model) -> bool:
    """Returns whether onnx may follow the values of `model`: none that it would write down takes memory for a claim."""
    return not any(map(_is_absurd, nodes_of(model.graph))) and not _has_absurd_input(model)


def protos_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields `graph` and its bodies in the order of :func:`quarkfast.graph.subgraphs.graphs_of`."""
    yield graph
    for attribute in (each for node in graph.node for each in node.attribute):
        for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from protos_of(body)


def _is_absurd(node: ir.Node) -> bool:
    """Whether onnx, which follows values through ConstantOfShape, would write down more of them than memory holds."""
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return False
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return shape is not None and any(int(size) > _LARGEST for size in shape.numpy().reshape(-1))


def _has_absurd_input(model: ir.Model) -> bool:
    shapes = (value.shape for value in model.graph.inputs if value.shape is not None)
    return any(isinstance(size, int) and size > _LARGEST for shape in shapes for size in shape)


def drop_stale_shapes(model: ir.Model) -> bool:
    """Forgets the shapes that a file declares of what its nodes compute, if they are stale; returns whether they were.

    Runtimes follow the nodes and put what is declared aside where it differs; onnx believes it, and what follows from
    it, such as one channel too few for a weight, keeps a runtime from loading the result.

    1. A shape is stale that has other sizes than follow from the inputs and constants, or a size where it follows that
       this is an open one of the inputs: a batch that was opened at the ends alone.
    2. If one is, others may be where nothing shows it: all are forgotten. What is declared of the graph's inputs and
       outputs stays, and so do types.
    """
    values = [value for graph in graphs_of(model) for node in graph for value in node.outputs]
    declared = {value: value.shape for value in values if value.shape is not None and not value.is_graph_output()}
    if not declared:
        return False
    for value in declared:
        value.shape = None
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    found = inferred(proto, propagate=may_propagate(model))
    known = [] if found is None else [_shapes(graph) for graph in protos_of(found.graph)]
    sizes = (size for value in model.graph.inputs for size in value.shape or ())
    symbols = {str(size.value) for size in sizes if isinstance(size, ir.SymbolicDim) and size.value is not None}
    for graph, shapes in zip(graphs_of(model), known, strict=False):
        for value in (output for node in graph for output in node.outputs if output in declared):
            if value.name in shapes and _differs(declared[value], shapes[value.name], symbols):
                return True
    for value, shape in declared.items():
        value.shape = shape
    return False


def _shapes(graph: onnx.GraphProto) -> dict[str, list[int | str | None]]:
    """Returns name -> sizes, names of open ones, and None for those of which nothing is known."""
    return {
        info.name: [
            size.dim_value if size.HasField("dim_value") else size.dim_param or None
            for size in info.type.tensor_type.shape.dim
        ]
        for info in graph.value_info
        if info.type.tensor_type.HasField("shape")
    }


def _differs(declared: ir.Shape | None, found: Sequence[int | str | None], symbols: Collection[str]) -> bool:
    if declared is None or len(declared) != len(found):
        return declared is not None
    return any(
        isinstance(one, int) and (one != other if isinstance(other, int) else other in symbols)
        for one, other in zip(declared, found, strict=True)
    )
