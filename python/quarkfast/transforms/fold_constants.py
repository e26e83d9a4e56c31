"""Subgraphs that depend on no input are computed once, by onnxscript's optimizer where they are more than shapes."""

from __future__ import annotations

import math

from quarkfast.deferred import ir, passes
from quarkfast.graph.access import is_constant
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.transforms.fold_shapes import fold_shapes
from quarkfast.transforms.lift_constants import lift_constants
from quarkfast.transforms.optimizer import optimize
from quarkfast.transforms.remove_identities import remove_identities

__all__ = ["fold_constants"]

# Exporters spell paddings as Shape -> ConstantOfShape -> Concat -> Pad. The optimizer leaves ConstantOfShape alone
# because it may create a huge tensor; up to this many elements it is folded, and the Pad becomes a static one.
_SMALL = 1024

# What the optimizer may simplify though not all that it reads is constant. To load it takes 0.18 s and 25 MB, as much
# as all the rest of preparing a ResNet-20, so it is loaded by models that have one of these or more to fold.
_SIMPLIFIED = {
    *("Abs", "Cast", "CastLike", "Concat", "ConcatFromSequence", "Dropout", "Expand", "Gather", "Identity", "If"),
    *("Reshape", "SequenceAt", "SequenceConstruct", "Shape", "Size", "SplitToSequence", "Squeeze"),
}


def _should_fold(node: ir.Node) -> bool | None:
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return None
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return True if shape is not None and math.prod(shape.numpy().tolist()) <= _SMALL else None


def _may_fold(node: ir.Node) -> bool:
    return node.op_type in _SIMPLIFIED or all(value is None or is_constant(value) for value in node.inputs)


def fold_constants(model: ir.Model) -> bool:
    """Replaces nodes with constant inputs by their results, in place; returns whether nodes are others than before.

    QuantizeLinear and DequantizeLinear of a model that is quantized already are not folded; neither is what
    `quarkfast.transforms.optimizer` keeps from the optimizer.
    Idempotent; graph inputs and outputs are kept; error 0 (onnx's reference kernels compute in the same type).
    """
    before = list(model.graph)
    fold_shapes(model)
    if model.functions or any(map(_may_fold, nodes_of(model.graph))):
        optimize(model, _should_fold)
    lift_constants(model)
    remove_identities(model)
    passes.RemoveUnusedNodesPass()(model)
    passes.NameFixPass()(model)
    return list(model.graph) != before
