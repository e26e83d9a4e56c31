"""The shape inference of onnx, on protobufs."""

from __future__ import annotations

import onnx

__all__ = ["FAILURES", "inferred"]

#: What onnx raises where a model contradicts itself.
FAILURES = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)


def inferred(proto: onnx.ModelProto, *, propagate: bool) -> onnx.ModelProto | None:
    """Returns the model with the types and shapes that onnx can tell, or None where it contradicts itself.

    Not strict: a node that onnx cannot infer (a custom operator) leaves its own outputs unknown, nothing else.

    Args:
        proto: Less than 2 GiB; large constants may be references.
        propagate: Whether onnx follows the values of small integer tensors, from which shapes are made.
    """
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=propagate)
    except FAILURES:
        return None
