"""Preparation by itself: a model as observers and quantizers take it."""

from __future__ import annotations

from quarkfast.config import PRESETS, Scheme
from quarkfast.deferred import ir
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.recipes import PREPARATION, WEIGHT_PREPARATION
from quarkfast.pipeline.step import run_steps

__all__ = ["prepare", "prepare_for_weights"]

_PLAIN = PRESETS["FP16"]


def prepare(model: ir.Model, opset: int, scheme: Scheme = _PLAIN) -> ir.Model:
    """Returns `model` ready to be observed and quantized; the one passed in must not be used any more.

    Args:
        model: A loaded model that nobody else holds.
        opset: The oldest operator set that the quantized model can do with.
        scheme: What it is prepared for; the default runs no algorithm.

    Raises:
        ModelError: If the graph has a cycle or a missing tensor, or a constant holds NaN.
        UnsupportedError: If the model cannot be converted to the operator set.
    """
    context = ModelContext(model=model, opset=opset, scheme=scheme)
    run_steps(PREPARATION, context)
    return context.model


def prepare_for_weights(model: ir.Model, opset: int) -> ir.Model:
    """Returns `model` ready to have its weights stored; the one passed in must not be used any more.

    Raises:
        ModelError: If the graph has a cycle or a missing tensor.
        UnsupportedError: If the model cannot be converted to the operator set.
    """
    context = ModelContext(model=model, opset=opset, scheme=_PLAIN)
    run_steps(WEIGHT_PREPARATION, context)
    return context.model
