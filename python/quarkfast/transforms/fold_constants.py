"""Subgraphs that depend on no input are computed once, by onnxscript's optimizer where they are more than shapes."""

from __future__ import annotations

import math

from quarkfast.deferred import ir, passes
from quarkfast.graph.recurrent import RECURRENT_WEIGHTS, is_recurrent
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


# PyTorch's gates are in another order than ONNX's: each weight of an LSTM or GRU is cut, joined and given an axis for
# directions. The optimizer leaves what has more than 8192 bytes alone; this is folded at any size, as it adds none.
_MOVES = frozenset({"Concat", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


# To load the optimizer takes 0.15 s and 25 MB, a third of preparing a model with 860 nodes, so it is loaded by models
# that have something to fold.
def _should_fold(node: ir.Node) -> bool | None:
    if node.op_type in _MOVES and _makes_recurrent_weights(node):
        return True
    if node.op_type != "ConstantOfShape" or not node.inputs or node.inputs[0] is None:
        return None
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return True if shape is not None and math.prod(shape.numpy().tolist()) <= _SMALL else None


def _makes_recurrent_weights(node: ir.Node) -> bool:
    """Whether moves alone lead from a node, and from the constants that it moves, to weights of recurrent layers."""
    moved = [value for value in node.inputs if value is not None and value.dtype in _FLOATS]
    return all(map(_becomes_recurrent_weights, (*node.outputs, *moved)))


def _becomes_recurrent_weights(value: ir.Value) -> bool:
    uses = value.uses()
    return (
        bool(uses)
        and not value.is_graph_output()
        and all(
            (is_recurrent(reader) and index in RECURRENT_WEIGHTS)
            or (reader.op_type in _MOVES and all(map(_becomes_recurrent_weights, reader.outputs)))
            for reader, index in uses
        )
    )


def fold_constants(model: ir.Model) -> bool:
    """Replaces nodes with constant inputs by their results, in place; returns whether nodes are others than before.

    Moves of constants that become weights of recurrent layers and nothing else are folded at any size.
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
