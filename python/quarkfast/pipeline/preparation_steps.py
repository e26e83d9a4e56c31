"""Steps of preparation that are more than one rewrite of the model as it is."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.config import Policy
from quarkfast.deferred import ir
from quarkfast.graph.notes import carry_over, remember, settle_calls
from quarkfast.graph.opset import choose_ir_version, convert_opset, convert_opset_exactly, opset_version
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.step import FunctionStep
from quarkfast.transforms.clean import inline_functions
from quarkfast.transforms.constants import check_weights, unshare_constants
from quarkfast.transforms.fix_shapes import fix_shapes
from quarkfast.transforms.half_precision import check_half

__all__ = [
    "check_constants",
    "check_half_precision",
    "check_new_constants",
    "convert_for_target",
    "convert_operator_set",
    "converts_for_target",
    "copy_shared_constants",
    "fix_input_shapes",
    "fold",
    "folds",
    "has_shapes",
    "inline_calls",
    "rewrite",
    "stays_half",
    "unshares",
]


def rewrite(
    name: str, function: Callable[[ir.Model], bool], applies: Callable[[ModelContext], bool] | None = None
) -> FunctionStep:
    """Returns a step of preparation that rewrites the model in place; `function` returns whether it changed it."""

    def run(context: ModelContext) -> bool:
        return function(context.model)

    return FunctionStep(name, "prepare", run) if applies is None else FunctionStep(name, "prepare", run, applies)


def fold(name: str, function: Callable[[ir.Model, Policy], bool]) -> FunctionStep:
    """Returns a step that moves constant factors, where they may move, by the thresholds of the scheme."""
    return FunctionStep(name, "prepare", lambda context: function(context.model, context.scheme.policy), folds)


def folds(context: ModelContext) -> bool:
    """Whether constant factors may move into layers."""
    return context.scheme.fold_batch_norm


def inline_calls(context: ModelContext) -> bool:
    """Inlines local functions; nodes keep the names of the calls that they come from."""
    remember(context.model)
    changed = inline_functions(context.model)
    settle_calls(context.model)
    return changed


def check_constants(context: ModelContext) -> bool:
    """Makes sure that constants are numbers."""
    context.checked = check_weights(context.model)
    return False


def stays_half(context: ModelContext) -> bool:
    """Whether the model stays in float16, so that it has to be in float16."""
    return context.scheme.float16_scales


def check_half_precision(context: ModelContext) -> bool:
    """Makes sure that a model which is to stay in float16 computes in that."""
    check_half(context.model)
    return False


def check_new_constants(context: ModelContext) -> bool:
    """Makes sure of that once more, where rewrites have made new ones."""
    check_weights(context.model, context.checked)
    context.checked = {}  # they would stay in memory
    return False


def convert_operator_set(context: ModelContext) -> bool:
    """Puts a model in the operator set that the result needs in place of the model."""
    before, wanted = context.model, context.scheme.opset
    context.opset_before = context.opset_before or opset_version(before)
    chosen = before if wanted is None else convert_opset_exactly(before, wanted)
    context.model = convert_opset(chosen, context.opset)
    carry_over(before, context.model)
    choose_ir_version(context.model)
    return context.model is not before


def has_shapes(context: ModelContext) -> bool:
    """Whether shapes are to be fixed."""
    return bool(context.scheme.shapes)


def fix_input_shapes(context: ModelContext) -> bool:
    """Gives inputs and outputs the shapes that the scheme says."""
    return fix_shapes(context.model, dict(context.scheme.shapes))


def unshares(context: ModelContext) -> bool:
    """Whether constants are to be copied."""
    return bool(context.scheme.unshare_constants)


def copy_shared_constants(context: ModelContext) -> bool:
    """Copies constants that several nodes read."""
    return unshare_constants(context.model, context.scheme.unshare_constants)


def converts_for_target(context: ModelContext) -> bool:
    """Whether the target wants operators to be others."""
    return bool(context.conversions)


def convert_for_target(context: ModelContext) -> bool:
    """Turns operators into others that the target computes; those that the scheme names by their type stay."""
    scheme, changed = context.scheme, False
    for each in context.conversions:
        if each.applies(scheme.op_types, scheme.exclude_op_types):
            changed = each.transform(context.model) or changed
    return changed
