"""Subgraphs that depend on no input are computed once, by onnxscript's optimizer where they are more than shapes."""

from __future__ import annotations

import math

import numpy as np

from quarkfast.deferred import ir, passes
from quarkfast.graph.access import shape_of, tensor_of
from quarkfast.graph.operators import FOLDED_ARITHMETIC, PACKERS, RECURRENT_WEIGHTS, REDUCTIONS, is_recurrent
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.transforms.fold_shapes import fold_shapes
from quarkfast.transforms.lift_constants import lift_constants
from quarkfast.transforms.optimizer import optimize
from quarkfast.transforms.remove_identities import remove_identities
from quarkfast.transforms.simplifiable import may_simplify, type_casts

__all__ = ["fold_constants"]

# Exporters spell paddings as Shape -> ConstantOfShape -> Concat -> Pad. The optimizer leaves ConstantOfShape alone
# because it may create a huge tensor; up to this many elements it is folded, and the Pad becomes a static one.
_SMALL = 1024


_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


# A weight may be computed: by weight normalization, or as the windowed sines of a resampler. Results of arithmetic are
# folded where they have no more numbers than the largest operand, and that up to this many.
_COMPUTED = 64 << 20


# To load the optimizer takes 0.15 s and 25 MB, a third of preparing a model with 860 nodes, so it is loaded by models
# that have something to fold.
def _should_fold(node: ir.Node) -> bool | None:
    if node.op_type in PACKERS and _makes_recurrent_weights(node):
        return True
    if node.op_type in FOLDED_ARITHMETIC | REDUCTIONS and _adds_none(node):
        return True
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return None
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return True if shape is not None and math.prod(shape.numpy().tolist()) <= _SMALL else None


def _adds_none(node: ir.Node) -> bool:
    """Whether the result of arithmetic is no larger than the largest constant, which nothing but arithmetic reads."""
    constants = [value for value in node.inputs if value is not None]
    if any(value.const_value is None for value in constants):
        return False
    shapes = [shape_of(tensor_of(value)) for value in constants]
    if node.op_type in REDUCTIONS:
        shapes = shapes[:1]  # axes are no numbers to compute with
    largest = max(map(math.prod, shapes))
    try:
        size = 1 if node.op_type in REDUCTIONS else math.prod(np.broadcast_shapes(*shapes))
    except ValueError:  # of a model that does not run
        return False
    readers = [
        reader
        for value, shape in zip(constants, shapes, strict=False)
        if math.prod(shape) == largest
        for reader, _ in value.uses()
    ]
    small = size <= largest <= _COMPUTED
    return small and all(reader.op_type in FOLDED_ARITHMETIC | REDUCTIONS for reader in readers)


def _makes_recurrent_weights(node: ir.Node) -> bool:
    """Whether moves alone lead from a node, and from the constants that it moves, to weights of recurrent layers."""
    moved = [value for value in node.inputs if value is not None and value.dtype in _FLOATS]
    return all(map(_becomes_recurrent_weights, (*node.outputs, *moved)))


def _becomes_recurrent_weights(value: ir.Value) -> bool:
    waiting, seen = [value], {value}
    while waiting:
        moved = waiting.pop()
        if not moved.uses() or moved.is_graph_output():
            return False
        readers = [each for each, index in moved.uses() if not (is_recurrent(each) and index in RECURRENT_WEIGHTS)]
        if any(reader.op_type not in PACKERS for reader in readers):
            return False
        further = [each for reader in readers for each in reader.outputs if each not in seen]
        seen.update(further)
        waiting += further
    return True


def fold_constants(model: ir.Model) -> bool:
    """Replaces nodes with constant inputs by their results, in place; returns whether nodes are others than before.

    Moves of constants that become weights of recurrent layers and nothing else are folded at any size, and arithmetic
    among constants that nothing else reads where its results are no larger.
    QuantizeLinear and DequantizeLinear of a model that is quantized already are not folded; neither is what
    `quarkfast.transforms.optimizer` keeps from the optimizer.
    Idempotent; graph inputs and outputs are kept; error 0 (onnx's reference kernels compute in the same type).
    """
    before = list(model.graph)
    fold_shapes(model)
    type_casts(model)
    lift_constants(model)  # onnx's converter of operator sets writes axes as Constant nodes
    if model.functions or any(map(may_simplify, nodes_of(model.graph))):
        optimize(model, _should_fold)
        lift_constants(model)
    remove_identities(model)
    passes.RemoveUnusedNodesPass()(model)
    passes.NameFixPass()(model)
    return list(model.graph) != before
