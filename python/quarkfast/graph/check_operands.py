"""Operands of a model's nodes, checked: their number, types and dimensions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import onnx

from quarkfast.errors import ModelError
from quarkfast.graph.schemas import own_schema
from quarkfast.graph.shape_inference import DEADLY, FAILURES, inferred

__all__ = ["check_layers", "check_operands"]

# Operator -> input -> its number of dimensions, or the least of a kernel's. That of a layer over places
# has two axes of channels, and one for each axis of places.
_KERNEL = 3
_Shape = tuple[int | None, ...]
_DIMENSIONS: Mapping[str, Mapping[int, int]] = {
    "Conv": {1: _KERNEL, 2: 1},
    "ConvTranspose": {1: _KERNEL, 2: 1},
    "ConvInteger": {1: _KERNEL},
    "QLinearConv": {3: _KERNEL, 8: 1},
    "Gemm": {1: 2},
    "BatchNormalization": {1: 1, 2: 1, 3: 1, 4: 1},
    "InstanceNormalization": {1: 1, 2: 1},
    "LSTM": {1: 3, 2: 3, 3: 2},
    "GRU": {1: 3, 2: 3, 3: 2},
    "RNN": {1: 3, 2: 3, 3: 2},
}


def check_layers(model: onnx.ModelProto, where: str) -> None:
    """Makes sure of the number of dimensions of weights, biases and statistics, and that groups divide channels.

    Bodies count too.

    Args:
        model: With the shapes that onnx has inferred.
        where: The model's name for messages.

    Raises:
        ModelError: If an operand has another number of dimensions, or channels that the groups do not divide.
    """
    _check_graph(model.graph, {}, where)


def _check_graph(graph: onnx.GraphProto, around: Mapping[str, _Shape], where: str) -> None:
    shapes = {**around, **{each.name: tuple(each.dims) for each in graph.initializer}}
    for value in (*graph.input, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            sizes = value.type.tensor_type.shape.dim
            shapes[value.name] = tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
    for node in graph.node:
        rows = _DIMENSIONS.get(node.op_type, {}) if node.domain in ("", "ai.onnx") else {}
        for index, wanted in rows.items():
            shape = shapes.get(node.input[index]) if index < len(node.input) else None
            if shape is not None:
                _check_operand(node, index, shape, wanted, where)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _check_graph(body, shapes, where)


def _check_operand(node: onnx.NodeProto, index: int, shape: _Shape, wanted: int, where: str) -> None:
    kernel = wanted == _KERNEL and node.op_type.endswith(("Conv", "ConvTranspose", "ConvInteger"))
    place = f"{where}: node {node.name or node.op_type!r}: tensor {node.input[index]!r}"
    if len(shape) < wanted or (len(shape) > wanted and not kernel):
        expected = f"at least {wanted} dimensions" if kernel else f"{wanted} dimensions"
        raise ModelError(f"{place}: expected {expected}, got shape {_shown(shape)}")
    group = next((each.i for each in node.attribute if each.name == "group"), 1)
    if kernel and (group < 1 or (shape[0] or 0) % group):
        raise ModelError(f"{place}: expected a first axis that {group} groups divide, got shape {_shown(shape)}")


def _shown(shape: _Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


# Elements up to which onnx sees the numbers of a constant: from small ones it makes shapes.
_SMALL = 1024

_STANDARD = ("", "ai.onnx", "ai.onnx.ml")
_Nodes = onnx.GraphProto | onnx.FunctionProto

# Operators of which onnx 1.23 tells what is not so, of all in its 2,024 test models: it gives a one-sided spectrum as
# many frequencies as a two-sided one, and stumbles over the attribute that the other one may leave out. And one that it
# must not be asked of.
_MISTOLD = frozenset({"MeanVarianceNormalization", "STFT", *DEADLY})

# Of which `quarkfast check` tells what types the operator set lacks, and which operator set has them.
_AUDITED = frozenset({"DequantizeLinear", "QuantizeLinear"})

# What onnx says of a node, by itself or within what it says of the node around it.
_FAULT = re.compile(r"^\(op_type:", re.MULTILINE)
_NODE = re.compile(r"(?P<operator>[^,)]*)(, node name: (?P<node>.*?))?\): (\[\w+Error\] )?(?P<cause>.*)", re.DOTALL)
_INNER = re.compile(r"\[\w+Error\] ")

# What is no fault of the model's: behind operators that onnx does not know types are unknown, and large constants are
# kept from it.
_UNKNOWN = re.compile(r"(is|was) null|external tensor|expected to have (tensor )?type\b(?!\. Got)|required tensor")


def check_operands(model: onnx.ModelProto, where: str) -> None:
    """Makes sure that no node is given a type that its operator does not take, or shapes that do not fit.

    A runtime would refuse the model for the same. What is declared of outputs and values between is not looked at, nor
    sizes of 0 or less of inputs: exporters leave them behind. Reads no large constant.

    Args:
        model: As it was read, its structure checked.
        where: The model's name for messages.

    Raises:
        ModelError: If a node is.
    """
    _check_own(model.graph, {}, where)
    versions = [each.version for each in model.opset_import if each.domain in _STANDARD[:2]]
    if not versions or max(versions) > onnx.defs.onnx_opset_version():
        return
    small = _without_data(model)
    try:
        check_layers(onnx.shape_inference.infer_shapes(small, check_type=True, strict_mode=True), where)
    except FAILURES as error:
        _, *faults = _FAULT.split(re.sub(r"Inference error\(s\): (?=\(op_type:)|^\[\w+Error\] ", "\n", str(error)))
        for fault in faults or [f"model): {error}"]:
            found = _NODE.match(fault)
            cause = " ".join((found["cause"] if found else fault).split())
            if found is not None and cause and not _UNKNOWN.search(cause):
                label = found["node"] or found["operator"]
                expected = f"operands that {found['operator']} can take"
                raise ModelError(f"{where}: node {label!r}: expected {expected}, got: {cause}") from error
        check_layers(inferred(small, propagate=False) or small, where)


def _check_own(graph: onnx.GraphProto, around: Mapping[str, int], where: str) -> None:
    """Makes sure that operators of our own and AMD Quark's, of which onnx tells nothing, get types that they take."""
    known = {
        **around,
        **{each.name: each.type.tensor_type.elem_type for each in graph.input if each.type.HasField("tensor_type")},
        **{each.name: each.data_type for each in graph.initializer},
    }
    for node in graph.node:
        schema = own_schema(node.op_type, node.domain)
        for name, formal in zip(node.input, schema.inputs if schema is not None else (), strict=False):
            if known.get(name):
                got = f"tensor({onnx.TensorProto.DataType.Name(known[name]).lower()})"
                if got not in formal.types:
                    expected = f"operands that {node.op_type} can take"
                    raise ModelError(
                        f"{where}: node {node.name or node.op_type!r}: expected {expected}, got {name!r} of type {got}"
                    )
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _check_own(attribute.g, known, where)


def _without_data(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns what onnx infers types from: nodes of operators that it knows, and what constants look like."""
    local = {(each.domain, each.name) for each in model.functions}
    small = onnx.ModelProto(ir_version=max(model.ir_version, 8), opset_import=model.opset_import)
    _copy_graph(model.graph, small.graph, local)
    constants = {each.name for each in (*small.graph.initializer, *small.graph.sparse_initializer)}
    for value in model.graph.input:
        if value.name not in constants:
            _without_sizes(value, small.graph.input.add(), 1)
    unknown = {name for node in model.graph.node if not _is_known(node, local) for name in node.output}
    for value in model.graph.value_info:
        if value.name in unknown and value.type.HasField("tensor_type"):
            declared = small.graph.input.add(name=value.name)
            declared.type.tensor_type.elem_type = value.type.tensor_type.elem_type
    for function in model.functions:
        copied = small.functions.add(
            name=function.name, domain=function.domain, overload=function.overload, input=function.input,
            output=function.output, attribute=function.attribute, attribute_proto=function.attribute_proto,
            opset_import=function.opset_import,
        )  # fmt: skip
        _copy_nodes(function, copied, local)
    return small


def _copy_graph(graph: onnx.GraphProto, copied: onnx.GraphProto, local: set[tuple[str, str]]) -> None:
    copied.name = "graph"
    _copy_nodes(graph, copied, local)
    for tensor in graph.initializer:
        _copy_tensor(tensor, copied.initializer.add())
    for sparse in graph.sparse_initializer:  # as runtimes take them
        tensor = onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims)
        _copy_tensor(tensor, copied.initializer.add(), keep=False)
    copied.output.extend(onnx.ValueInfoProto(name=value.name) for value in graph.output)


def _copy_nodes(graph: _Nodes, copied: _Nodes, local: set[tuple[str, str]]) -> None:
    for node in graph.node:
        if not _is_known(node, local):
            continue
        if not any(each.HasField("t") or each.HasField("g") or each.graphs for each in node.attribute):
            copied.node.append(node)
            continue
        into = copied.node.add(
            op_type=node.op_type, domain=node.domain, name=node.name, overload=node.overload, input=node.input,
            output=node.output,
        )  # fmt: skip
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _copy_tensor(attribute.t, into.attribute.add(name=attribute.name, type=attribute.type).t)
            elif attribute.HasField("g"):
                body = into.attribute.add(name=attribute.name, type=attribute.type).g
                _copy_graph(attribute.g, body, local)
                for value in attribute.g.input:
                    _without_sizes(value, body.input.add(), None)
            else:
                into.attribute.append(attribute)


def _copy_tensor(tensor: onnx.TensorProto, copied: onnx.TensorProto, keep: bool = True) -> None:
    if keep and tensor.data_location != onnx.TensorProto.EXTERNAL and math.prod(tensor.dims) <= _SMALL:
        copied.CopyFrom(tensor)
        return
    copied.name, copied.data_type = tensor.name, tensor.data_type
    copied.dims.extend(tensor.dims)
    copied.data_location = onnx.TensorProto.EXTERNAL


def _without_sizes(value: onnx.ValueInfoProto, copied: onnx.ValueInfoProto, least: int | None) -> None:
    """Copies what is declared of an input, without sizes below `least`, or without a shape if that is None."""
    copied.name = value.name
    copied.type.CopyFrom(value.type)
    if copied.type.HasField("tensor_type"):
        if least is None or not copied.type.tensor_type.HasField("shape"):
            copied.type.tensor_type.ClearField("shape")
            return
        for size in copied.type.tensor_type.shape.dim:
            if size.HasField("dim_value") and size.dim_value < least:
                size.Clear()


def _is_known(node: onnx.NodeProto, local: set[tuple[str, str]]) -> bool:
    told = node.domain in _STANDARD and node.op_type not in _MISTOLD | _AUDITED
    return told or (node.domain, node.op_type) in local
