"""Opset and IR version: the lowest that carries what a model uses."""

from __future__ import annotations

import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ModelError, UnsupportedError
from quarkfast.graph.access import shape_of

__all__ = ["choose_ir_version", "convert_opset", "opset_version"]

# Initializers outside the graph inputs are legal from IR version 4 on.
_OLDEST_IR = 4

# Bytes from which on the converter of onnx sees only that a constant exists; what it looks at are scales and shapes.
_LARGE = 4096


def opset_version(model: ir.Model) -> int:
    """Returns the version of the standard operator set that `model` imports.

    Raises:
        ModelError: If it imports none, or one that the installed onnx does not know.
    """
    version = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise ModelError(f"model: expected an operator set version from 1 to {newest}, got {version}")
    return version


def convert_opset(model: ir.Model, at_least: int) -> ir.Model:
    """Returns `model` converted to opset `at_least`, or itself if it has that or a newer one.

    Raises:
        UnsupportedError: If onnx's version converter cannot do it.
    """
    version = opset_version(model)
    if version >= at_least:
        return model
    tensors = _set_large_tensors_aside(model)
    try:
        converted = onnx.version_converter.convert_version(ir.serde.serialize_model(model), at_least)
    except (RuntimeError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise UnsupportedError(
            f"model: expected opset {at_least} or newer, got {version}, which onnx cannot convert: {cause}"
        ) from error
    result = ir.serde.deserialize_model(converted)
    for graph in result.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = tensors[str(value.const_value.location)]
    return result


def _set_large_tensors_aside(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Puts references in the place of large constants, because a protobuf holds 2 GiB; returns them by location."""
    aside: dict[str, ir.TensorProtocol] = {}
    for graph in model.graphs():
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if tensor is None or tensor.dtype == ir.DataType.STRING:
                continue
            if tensor.nbytes < _LARGE and not isinstance(tensor, ir.ExternalTensor):
                continue
            location = f"aside_{len(aside)}"
            aside[location] = tensor
            value.const_value = ir.ExternalTensor(
                location, 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(shape_of(tensor)), name=name
            )
    return aside


def choose_ir_version(model: ir.Model) -> None:
    """Sets the IR version to the lowest that goes with the model's operator set.

    Exporters stamp the newest one they know, and a runtime refuses a model whose IR version is newer than its own,
    although nothing in the model needs it.
    """
    imports = [onnx.helper.make_opsetid("", opset_version(model))]
    model.ir_version = max(onnx.helper.find_min_ir_version_for(imports), _OLDEST_IR)
