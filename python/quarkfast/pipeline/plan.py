"""The beginning of a recipe, run over a model: what there is to decide without data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quarkfast.config import Scheme
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.model_plan import ModelPlan, describe, describe_weights
from quarkfast.pipeline.recipes import lowest_opset_of, recipe_of, through
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.step import run_steps
from quarkfast.targets import Target

if TYPE_CHECKING:
    from quarkfast.graph.load import ModelSource

__all__ = ["plan", "plan_model"]


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


def plan(model: ModelSource, preset: str | Scheme = "A8W8", **options: Any) -> ModelPlan:
    """Says what :func:`quarkfast.quantize` would do with the same arguments; runs nothing and writes nothing.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a :class:`quarkfast.Scheme`.
        **options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys for them, ``target`` included.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read.
        UnsupportedError: If this version cannot do it.

    Example:
        >>> import onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> print(quarkfast.plan(proto))
        preset: A8W8 (activations int8, weights int8, placed for ryzenai-a8w8)
        quantized: 1 Relu
        activations: 2 int8
        recipe: 27 steps
    """
    scheme, target = resolve(preset, options)
    # onnx and onnx_ir, after mistakes in arguments are found
    from quarkfast.pipeline.plan import plan_model

    return plan_model(model, scheme, target)
