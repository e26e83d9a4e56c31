"""Placement of a model some of whose tensors get another form than the scheme's, once steps have found which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quarkfast.config.rules import TensorRule
from quarkfast.errors import UnsupportedError
from quarkfast.graph.opset import opset_version
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.preparation_steps import convert_operator_set
from quarkfast.quantization import place
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.infer_types import infer_types
from quarkfast.writers import lowest_opset

__all__ = ["place_anew"]


def place_anew(context: Context, rules: Sequence[TensorRule]) -> None:
    """Places the model with further rules for tensors, in an operator set that has their types.

    Raises:
        UnsupportedError: If the model cannot be converted to that; it is then as it was.
    """
    scheme = replace(context.scheme, tensors=(*context.scheme.tensors, *context.tensor_rules, *rules))
    needed = lowest_opset(scheme, context.target, context.model.graph.initializers)
    if opset_version(context.model) < needed:
        before, context.opset = context.opset, needed
        try:
            convert_operator_set(context)
        except UnsupportedError:
            context.opset = before
            raise
        fold_constants(context.model)
        infer_types(context.model)
    context.tensor_rules = (*context.tensor_rules, *rules)
    context.placement = place(context.model, scheme, context.target)
