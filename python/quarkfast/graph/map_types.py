"""Types that hold maps, as of outputs of scikit-learn's classifiers: onnx-ir has none of them."""

from __future__ import annotations

import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ModelError

__all__ = ["holds_map", "keep_map_types", "restore_map_types", "without_map_types"]

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
