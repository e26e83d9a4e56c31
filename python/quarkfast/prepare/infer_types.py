"""Type and shape of every tensor, as far as onnx can tell."""

from __future__ import annotations

from quarkfast.deferred import ir, passes
from quarkfast.graph.contrib import type_outputs

__all__ = ["infer_types"]

# No real dimension is larger; tables of words have some 2^18 rows.
_LARGEST = 1 << 24


def infer_types(model: ir.Model) -> None:
    """Fills in types and shapes in place; what cannot be inferred stays unknown.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else; of those
    of onnxruntime whose outputs have the type of their input that is filled in.
    Idempotent; changes no node.
    """
    propagate = not any(map(_is_absurd, model.graph.all_nodes())) and not _has_absurd_input(model)
    infer = passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=propagate)
    infer(model)
    while type_outputs(model):
        infer(model)


def _is_absurd(node: ir.Node) -> bool:
    """Whether onnx, which follows values through ConstantOfShape, would write down more of them than memory holds."""
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return False
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return shape is not None and any(int(size) > _LARGEST for size in shape.numpy().reshape(-1))


def _has_absurd_input(model: ir.Model) -> bool:
    shapes = (value.shape for value in model.graph.inputs if value.shape is not None)
    return any(isinstance(size, int) and size > _LARGEST for shape in shapes for size in shape)
