"""The three recipes: what is done to a model, step by step and in this order."""

from __future__ import annotations

from functools import partial

from quarkfast.algorithms.bias_correction import BIAS_CORRECTION
from quarkfast.algorithms.channel_smoothing import CHANNEL_SMOOTHING
from quarkfast.algorithms.cross_layer_equalization import CROSS_LAYER_EQUALIZATION
from quarkfast.algorithms.hadamard_rotation import HADAMARD_ROTATION
from quarkfast.algorithms.outlier_channel_splitting import OUTLIER_CHANNEL_SPLITTING
from quarkfast.algorithms.output_bias_correction import OUTPUT_BIAS_CORRECTION
from quarkfast.algorithms.range_method import RANGE_METHOD
from quarkfast.algorithms.range_search import RANGE_SEARCH
from quarkfast.algorithms.scale_alignment import SCALE_ALIGNMENT
from quarkfast.algorithms.weight_rounding_row import WEIGHT_ROUNDING
from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.shape_inference import drop_stale_shapes
from quarkfast.pipeline.attention_steps import may_raise_attention, raise_attention
from quarkfast.pipeline.float_layer_steps import leave_layers_float
from quarkfast.pipeline.outlier_steps import (
    may_split_outliers,
    observe_channels_between,
    observes_channels,
    split_outliers,
)
from quarkfast.pipeline.poor_output_steps import correct_poor_outputs, keep_unwritten, may_correct_biases
from quarkfast.pipeline.preparation_steps import (
    check_constants,
    check_half_precision,
    check_new_constants,
    convert_for_target,
    convert_operator_set,
    converts_for_target,
    copy_shared_constants,
    fix_input_shapes,
    fold,
    folds,
    has_shapes,
    inline_calls,
    rewrite,
    stays_half,
    unshares,
)
from quarkfast.pipeline.quantization_steps import (
    check_for_target,
    choose_ranges,
    compute_scales,
    insert_plan,
    keep_constants_in_files,
    measure_outputs,
    measures_outputs,
    narrow_to_half,
    place_pairs,
    plan_codes,
    request_channels,
    request_ranges,
    round_constants_alone,
    rounds_constants_alone,
    runs_model,
    serialize_model,
    smooths_channels,
    take_channel_maxima,
    takes_ranges,
    write_files,
    writes_files,
)
from quarkfast.pipeline.shift_steps import (
    aligns_scales,
    balance_biases,
    drop_aligned_limits,
    settle_shifted_limits,
    shift_activations,
    shifts_activations,
)
from quarkfast.pipeline.step import FunctionStep, Step
from quarkfast.pipeline.weight_only_steps import choose_weights, store_weights, write_stored_weights
from quarkfast.pipeline.weight_precision_steps import may_raise_precision, may_run_for_weights, raise_precision
from quarkfast.pipeline.wide_weight_steps import widen_weights
from quarkfast.targets import Target
from quarkfast.transforms.clean import clean, sort
from quarkfast.transforms.fold_affine import fold_affine
from quarkfast.transforms.fold_batch_norm import fold_batch_norm
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.half_precision import widen_half
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.remove_no_ops import merge_concats, remove_no_ops
from quarkfast.transforms.split_affine import split_affine
from quarkfast.writers import lowest_opset

__all__ = [
    "DYNAMIC",
    "PREPARATION",
    "STATIC",
    "WEIGHT_ONLY",
    "WEIGHT_PREPARATION",
    "Recipe",
    "lowest_opset_of",
    "recipe_of",
    "through",
]

Recipe = tuple[Step, ...]

_STRUCTURE: Recipe = (
    rewrite("sort", sort),
    FunctionStep("inline functions", "prepare", inline_calls),
    rewrite("drop stale shapes", drop_stale_shapes),
    FunctionStep("convert opset", "prepare", convert_operator_set),
    rewrite("clean", clean),
    FunctionStep("fix shapes", "prepare", fix_input_shapes, has_shapes),
)

PREPARATION: Recipe = (
    *_STRUCTURE,
    FunctionStep("check half precision", "prepare", check_half_precision, stays_half),
    rewrite("widen half precision", widen_half),
    FunctionStep("check constants", "prepare", check_constants),
    rewrite("fold constants", fold_constants),
    rewrite("fold BatchNormalization", fold_batch_norm, folds),
    fold("split affine steps", split_affine),
    fold("fold affine steps", fold_affine),
    FunctionStep("observe channels between layers", "prepare", observe_channels_between, observes_channels),
    HADAMARD_ROTATION,
    CROSS_LAYER_EQUALIZATION,
    FunctionStep("copy shared constants", "prepare", copy_shared_constants, unshares),
    FunctionStep("check new constants", "prepare", check_new_constants),
    rewrite("infer types", infer_types),
    rewrite("remove no-ops", remove_no_ops),
    rewrite("merge Concats", merge_concats),
    FunctionStep("convert for target", "prepare", convert_for_target, converts_for_target),
)
"""Float rewrites in front of pairs."""

# Small constants are read, so that a weight behind a Reshape is one, and weights of layers in front of a
# BatchNormalization, which onnxruntime could not fold into codes any more. No large matrix is read.
WEIGHT_PREPARATION: Recipe = (
    *_STRUCTURE,
    rewrite("fold constants", fold_constants),
    rewrite("fold BatchNormalization", fold_batch_norm, folds),
)
"""Float rewrites in front of stored weights."""

_PLACEMENT: Recipe = (
    FunctionStep("place", "prepare", place_pairs),
    FunctionStep("keep constants in files", "prepare", keep_constants_in_files, runs_model),
)

_WRITING: Recipe = (
    FunctionStep("drop limits", "insert", drop_aligned_limits, aligns_scales),
    FunctionStep("check for target", "insert", check_for_target),
    FunctionStep("insert", "insert", insert_plan),
    FunctionStep("settle limits", "insert", settle_shifted_limits, shifts_activations),
    FunctionStep("round constants alone", "insert", round_constants_alone, rounds_constants_alone),
    FunctionStep("narrow to half precision", "insert", narrow_to_half, stays_half),
    FunctionStep("serialize", "insert", serialize_model),
    FunctionStep("measure outputs", "check", measure_outputs, measures_outputs),
)

STATIC: Recipe = (
    *PREPARATION,
    *_PLACEMENT,
    FunctionStep("raise weight precision", "prepare", raise_precision, may_raise_precision),
    FunctionStep("raise attention precision", "prepare", raise_attention, may_raise_attention),
    FunctionStep("split outlier channels", "prepare", split_outliers, may_split_outliers),
    FunctionStep("choose ranges", "insert", choose_ranges, takes_ranges, request_ranges),
    FunctionStep("shift activations", "insert", shift_activations, shifts_activations),
    SCALE_ALIGNMENT,
    FunctionStep("compute scales", "insert", compute_scales, requires=request_channels),
    FunctionStep("plan codes", "insert", plan_codes),
    RANGE_METHOD,
    RANGE_SEARCH,
    FunctionStep("balance biases", "insert", balance_biases, shifts_activations),
    BIAS_CORRECTION,
    OUTPUT_BIAS_CORRECTION,
    WEIGHT_ROUNDING,
    FunctionStep("keep plan", "insert", keep_unwritten, may_correct_biases),
    *_WRITING,
    FunctionStep("correct poor outputs", "check", partial(correct_poor_outputs, writing=_WRITING), may_correct_biases),
    FunctionStep("write files", "save", write_files, writes_files),
)
"""Pairs with scales that are known beforehand, and types that need none."""

DYNAMIC: Recipe = (
    *PREPARATION,
    *_PLACEMENT,
    FunctionStep("leave layers float", "prepare", leave_layers_float, may_run_for_weights),
    FunctionStep("take channel maxima", "insert", take_channel_maxima, smooths_channels),
    OUTLIER_CHANNEL_SPLITTING,
    CHANNEL_SMOOTHING,
    FunctionStep("compute scales", "insert", compute_scales, requires=request_channels),
    FunctionStep("plan codes", "insert", plan_codes),
    BIAS_CORRECTION,
    WEIGHT_ROUNDING,
    FunctionStep("check for target", "insert", check_for_target),
    FunctionStep("insert", "insert", insert_plan),
    FunctionStep("narrow to half precision", "insert", narrow_to_half, stays_half),
    FunctionStep("serialize", "insert", serialize_model),
    FunctionStep("measure outputs", "check", measure_outputs, measures_outputs),
    FunctionStep("write files", "save", write_files, writes_files),
)
"""Activations are quantized when the model runs, by the range of each."""

WEIGHT_ONLY: Recipe = (
    *WEIGHT_PREPARATION,
    FunctionStep("place", "prepare", choose_weights),
    BIAS_CORRECTION,
    FunctionStep("widen weights", "prepare", widen_weights, may_run_for_weights),
    WEIGHT_ROUNDING,
    FunctionStep("store weights", "prepare", store_weights),
    FunctionStep("write", "save", write_stored_weights),
)
"""Weights are stored in a narrower type, and activations left alone."""


def recipe_of(scheme: Scheme) -> Recipe:
    """Returns the recipe that `scheme` is quantized by.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> [step.name for step in recipe_of(PRESETS["INT8_WO"])][-6:]
        ['place', 'bias correction', 'widen weights', 'weight rounding', 'store weights', 'write']
    """
    if scheme.weights_only:
        return WEIGHT_ONLY
    return DYNAMIC if scheme.encoding == "dynamic" else STATIC


def lowest_opset_of(scheme: Scheme, target: Target, model: ir.Model) -> int:
    """Returns the oldest operator set that carries what `scheme` makes of `model`."""
    if not scheme.weights_only:
        return lowest_opset(scheme, target, model.graph.initializers)
    from quarkfast.writers.weight_only import lowest_opset as lowest_opset_of_weights  # as its steps are imported

    return lowest_opset_of_weights(model, scheme)


def through(recipe: Recipe, name: str) -> Recipe:
    """Returns the steps of `recipe` up to the one of that name.

    Example:
        >>> [step.name for step in through(WEIGHT_ONLY, "clean")]
        ['sort', 'inline functions', 'drop stale shapes', 'convert opset', 'clean']
    """
    return recipe[: [step.name for step in recipe].index(name) + 1]
