"""The beginning of a recipe, run over a model: what there is to decide without data."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.config import Scheme
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.model_plan import ModelPlan, describe, describe_weights
from quarkfast.pipeline.recipes import lowest_opset_of, recipe_of, through
from quarkfast.pipeline.step import run_steps
from quarkfast.targets import Target

__all__ = ["plan_model"]


def plan_model(model: ModelSource, scheme: Scheme, target: Target) -> ModelPlan:
    """Runs the recipe of `scheme` as far as its placement, and says what was decided.

    Raises:
        ModelError: If the model cannot be read.
        UnsupportedError: If this version cannot do it.
    """
    loaded, recipe = load_model(model), recipe_of(scheme)
    opset = lowest_opset_of(scheme, target, loaded)
    context = Context(
        model=loaded, opset=opset, scheme=scheme, conversions=target.conversions, target=target, float_model=model
    )
    del loaded
    steps = tuple(step.name for step in recipe if step.applies(context))
    run_steps(through(recipe, "place"), context)
    if scheme.weights_only:
        return replace(describe_weights(context.weight_plan.placement, scheme), recipe=steps)
    found = describe(context.placement, scheme)
    return replace(found, preflight=target.preflight(context.model, context.placement, scheme), recipe=steps)
