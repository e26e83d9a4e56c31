"""Type and shape of every tensor, as far as onnx can tell."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes import common

from quarkfast.graph.contrib import type_outputs

__all__ = ["infer_types"]


def infer_types(model: ir.Model) -> None:
    """Fills in types and shapes in place; what cannot be inferred stays unknown.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else; of those
    of onnxruntime whose outputs have the type of their input that is filled in.
    Idempotent; changes no node.
    """
    infer = common.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)
    infer(model)
    while type_outputs(model):
        infer(model)
