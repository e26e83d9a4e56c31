"""Type and shape of every tensor, as far as onnx can tell."""

from __future__ import annotations

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.aside import large_tensors_aside
from quarkfast.graph.contrib import type_outputs

__all__ = ["infer_types"]

# What the shape inference of onnx raises where a model contradicts itself.
_FAILURES = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)

# No real dimension is larger; tables of words have some 2^18 rows.
_LARGEST = 1 << 24


def infer_types(model: ir.Model) -> None:
    """Fills in types and shapes in place; what cannot be inferred stays unknown.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else; of those
    of onnxruntime whose outputs have the type of their input that is filled in.
    Idempotent; changes no node.
    """
    propagate = not any(map(_is_absurd, model.graph.all_nodes())) and not _has_absurd_input(model)
    _infer(model, propagate)
    while type_outputs(model):
        _infer(model, propagate)


def _infer(model: ir.Model, propagate: bool) -> None:
    """Takes over what onnx infers, types as they are: onnx_ir's own pass makes tensors of sequences."""
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=propagate)
    except _FAILURES:
        return
    for graph, found in zip(model.graphs(), ir.serde.deserialize_model(inferred).graphs(), strict=True):
        known = ir.convenience.create_value_mapping(found)
        for name, value in ir.convenience.create_value_mapping(graph).items():
            value.shape = known[name].shape or value.shape
            value.type = known[name].type or value.type


def _is_absurd(node: ir.Node) -> bool:
    """Whether onnx, which follows values through ConstantOfShape, would write down more of them than memory holds."""
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return False
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return shape is not None and any(int(size) > _LARGEST for size in shape.numpy().reshape(-1))


def _has_absurd_input(model: ir.Model) -> bool:
    shapes = (value.shape for value in model.graph.inputs if value.shape is not None)
    return any(isinstance(size, int) and size > _LARGEST for shape in shapes for size in shape)
