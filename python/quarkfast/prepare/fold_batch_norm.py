"""BatchNormalization becomes part of the Conv, ConvTranspose or Gemm in front of it, by onnxscript's rewriter."""

from __future__ import annotations

from onnxscript.rewriter import RewritePass
from onnxscript.rewriter.rules.common import (
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
)

from quarkfast.deferred import ir, passes

__all__ = ["fold_batch_norm"]

_RULES = (fuse_batchnorm_into_conv_rule, fuse_batchnorm_into_conv_transpose_rule, fuse_batchnorm_into_gemm_rule)


def fold_batch_norm(model: ir.Model) -> None:
    """Folds BatchNormalization into the linear layer whose only reader it is, in place.

    1. ``W' = W * gamma / sqrt(var + epsilon)`` for each output channel; ``b' = (b - mean) * gamma / sqrt(...) + beta``.
    2. Weights that another node reads too are left alone, and so is their BatchNormalization.
    3. The layer keeps its name, its weight keeps its name, its output takes the BatchNormalization's.

    Idempotent; graph inputs and outputs are kept; error: rounding of the folded weights to float32.
    """
    layers = {
        node.outputs[0].name: node.inputs[0].producer()
        for node in model.graph
        if node.op_type == "BatchNormalization" and node.inputs[0] is not None
    }
    names = {output: layer.name for output, layer in layers.items() if layer is not None}
    known = {node.name for node in model.graph}
    if layers:
        RewritePass(_RULES)(model)
    for node in model.graph:
        # The rewriter makes a new node and leaves it without a name; users exclude layers by the old one.
        if node.name not in known and node.outputs[0].name in names:
            node.name = names[node.outputs[0].name]
    passes.RemoveUnusedNodesPass()(model)
    passes.NameFixPass()(model)
