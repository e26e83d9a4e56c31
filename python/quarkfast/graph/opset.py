"""Opset and IR version: the lowest that carries what a model uses, and that runtimes have."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, ModelError, UnsupportedError
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.shape_inference import bring_back, large_tensors_aside, without_map_types
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = ["check_pairs_run", "choose_ir_version", "convert_opset", "convert_opset_exactly", "opset_version"]

# Initializers outside the graph inputs are legal from IR version 4 on.
_OLDEST_IR = 4

# The newest operator set of the oldest onnxruntime that we run on, 1.18. A type that a set adds to an operator makes
# a new version of it, and runtimes lack some of them for a while: onnxruntime 1.23 runs a Conv in set 23, but has no
# QuantizeLinear of that.
_EVERYWHERE = 21

# The newest one whose QuantizeLinear, DequantizeLinear and Cast any onnxruntime has; 1.32 does not have those of 28.
_NEWEST_PAIRS = 27

# Scan had a batch in 8 and has none from 9 on; onnx takes the first axis off the graph's inputs to convert it.
_BATCHED_SCAN = 8

# What onnx's converter raises, and the shape inference that it begins with.
_FAILURES = (
    *(onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError),
    *(IndexError, RuntimeError, ValueError),
)


def opset_version(model: ir.Model) -> int:
    """Returns the version of the standard operator set that `model` imports.

    Raises:
        ModelError: If it imports none, or one that the installed onnx does not know.
    """
    version = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    newest = onnx.defs.onnx_opset_version()
    if not version and model.opset_imports:
        found = ", ".join(map(repr, model.opset_imports))
        raise ModelError(f"model: expected operators of the ONNX standard, got an import of {found} alone")
    if not 1 <= version <= newest:
        raise ModelError(f"model: expected an operator set version from 1 to {newest}, got {version}")
    return version


def convert_opset(model: ir.Model, at_least: int) -> ir.Model:
    """Returns `model` in an operator set that carries what is to be written, or itself if it is in such a one.

    1. One older than `at_least` is converted by onnx.
    2. One newer than 21 is stamped with the oldest from there on in which all its operators are the same.
    3. One that is newer than 27 even then is converted by onnx, if it can.
    4. Graph inputs and outputs keep names and types.

    Raises:
        ModelError: If there is no version, or one that the installed onnx does not know.
        UnsupportedError: If it is too old and onnx's version converter cannot convert it.
    """
    version = opset_version(model)
    if version < at_least:
        if version <= _BATCHED_SCAN and any(node.op_type == "Scan" for node in nodes_of(model.graph)):
            raise UnsupportedError(
                f"model: expected opset 9 or newer for Scan, got {version}, whose Scan has a batch; export it anew"
            )
        try:
            return _convert(model, at_least)
        except _FAILURES as error:
            cause = " ".join(str(error).split())
            raise UnsupportedError(
                f"model: expected opset {at_least} or newer, got {version}, which onnx cannot convert: {cause}"
            ) from error
    if version <= _EVERYWHERE:
        return model
    wanted = max([_EVERYWHERE, at_least, *(_since(node, version) for node in nodes_of(model.graph))])
    if wanted > _NEWEST_PAIRS:
        try:
            return _convert(model, _NEWEST_PAIRS)
        except _FAILURES:
            return model  # which `check_pairs_run` refuses where there is something to write
    if wanted < version:
        model.opset_imports.pop("ai.onnx", None)
        model.opset_imports[""] = wanted
    return model


def convert_opset_exactly(model: ir.Model, version: int) -> ir.Model:
    """Returns `model` in an operator set, newer or older than its own, or itself if its operators are the same there.

    Raises:
        ConfigError: If the installed onnx does not know it.
        ModelError: If the model has no version, or one that the installed onnx does not know.
        UnsupportedError: If onnx's version converter cannot convert it.
    """
    before, newest = opset_version(model), onnx.defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise ConfigError(f"version: expected an operator set from 1 to {newest}, got {version}")
    if version <= before and all(_since(node, before) <= version for node in nodes_of(model.graph)):
        model.opset_imports.pop("ai.onnx", None)
        model.opset_imports[""] = version
        return model
    try:
        return _convert(model, version)
    except _FAILURES as error:
        cause = " ".join(str(error).split())
        raise UnsupportedError(
            f"model: expected one that onnx can convert to operator set {version}, got one in {before}: {cause}"
        ) from error


def check_pairs_run(model: ir.Model) -> None:
    """Makes sure that runtimes have the QuantizeLinear, DequantizeLinear and Cast of the operator set of `model`.

    Raises:
        UnsupportedError: If they do not.
    """
    version = opset_version(model)
    if version > _NEWEST_PAIRS:
        nodes = [node for node in nodes_of(model.graph) if _since(node, version) > _NEWEST_PAIRS]
        found = f"{nodes[0].op_type} {name_of(nodes[0])!r}" if nodes else "none"
        raise UnsupportedError(
            f"model: expected operators of opset {_NEWEST_PAIRS} or older, got {found} of opset {version}, which onnx "
            "cannot convert; onnxruntime has no QuantizeLinear, DequantizeLinear and Cast of that opset"
        )


def _since(node: ir.Node, version: int) -> int:
    """Returns the set in which the operator of `node` became what it is in `version`; 0 if it is not the standard's."""
    if not is_standard(node):
        return 0
    try:
        return int(onnx.defs.get_schema(node.op_type, version, "").since_version)
    except onnx.defs.SchemaError:
        return version


def _convert(model: ir.Model, version: int) -> ir.Model:
    """Has onnx convert `model`; it is as it was if that raises.

    onnx knows tensors alone, calls sequences tensors, and in 1.17 drops their types.
    """
    with large_tensors_aside(model) as tensors:
        converted = onnx.version_converter.convert_version(ir.serde.serialize_model(model), version)
    result = ir.serde.deserialize_model(without_map_types(converted, "model")[0])
    bring_back(result, tensors)
    known = {name_of(value): value for value in _values(model)}
    for value in _values(result):
        old = known.get(name_of(value))
        if old is not None or value.const_value is None:
            value.type, value.shape = (None, None) if old is None else (old.type, old.shape)
    return result


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs_of(model):
        yield from graph.inputs
        yield from graph.initializers.values()
        for node in graph:
            yield from node.outputs


def choose_ir_version(model: ir.Model) -> None:
    """Sets the IR version to the lowest that goes with the model's operator set.

    Exporters stamp the newest one they know, and a runtime refuses a model whose IR version is newer than its own,
    although nothing in the model needs it.
    """
    imports = [onnx.helper.make_opsetid("", opset_version(model))]
    model.ir_version = max(onnx.helper.find_min_ir_version_for(imports), _OLDEST_IR)
