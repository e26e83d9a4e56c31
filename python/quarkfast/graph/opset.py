"""Opset and IR version: the lowest that carries what a model uses."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from quarkfast.errors import ModelError, UnsupportedError

__all__ = ["choose_ir_version", "convert_opset", "opset_version"]

# Initializers outside the graph inputs are legal from IR version 4 on.
_OLDEST_IR = 4


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
    proto = ir.serde.serialize_model(model)
    try:
        converted = onnx.version_converter.convert_version(proto, at_least)
    except (RuntimeError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise UnsupportedError(
            f"model: expected opset {at_least} or newer, got {version}, which onnx cannot convert: {cause}"
        ) from error
    result = ir.serde.deserialize_model(converted)
    for name, value in model.graph.initializers.items():
        # Data outside the file is found by its folder, which the protobuf does not know.
        if isinstance(value.const_value, ir.ExternalTensor) and name in result.graph.initializers:
            result.graph.initializers[name].const_value = value.const_value
    return result


def choose_ir_version(model: ir.Model) -> None:
    """Sets the IR version to the lowest that goes with the model's operator set.

    Exporters stamp the newest one they know, and a runtime refuses a model whose IR version is newer than its own,
    although nothing in the model needs it.
    """
    imports = [onnx.helper.make_opsetid("", opset_version(model))]
    model.ir_version = max(onnx.helper.find_min_ir_version_for(imports), _OLDEST_IR)
