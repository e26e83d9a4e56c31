"""The options that change a preset, one row each: name, values, what they change, help, and Quark's key.

Everything that knows options reads this table: the checks of `quarkfast.quantize`, the command line with its help, the
translation of Quark's keys, and the table of docs/cli.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from quarkfast.config.method_options import choose, choose_method, choose_moving_average, choose_parameter
from quarkfast.config.options import changes, kinds
from quarkfast.config.options.kinds import Kind
from quarkfast.config.overrides import read_overrides
from quarkfast.config.policy import read_policy
from quarkfast.config.rules import read_exclude, read_layers
from quarkfast.config.scheme import Scheme
from quarkfast.config.shapes import read_shapes
from quarkfast.config.types import retype
from quarkfast.ranges.registry import METHODS, PARAMETERS, Parameter

__all__ = ["GROUPS", "OPTIONS", "Option"]

_DATA, _TYPES, _RANGES = "Calibration data", "Types and scales", "Range estimation"
_MODEL, _SELECTION = "Target and model", "What is quantized"

GROUPS = (_DATA, _TYPES, _RANGES, _MODEL, _SELECTION)
"""Groups of options, in the order of the command line's help and of docs/cli.md."""


class Option(NamedTuple):
    """One option.

    Attributes:
        name: Name in Python; the command line has dashes for underscores.
        kind: Type and check of its values.
        apply: From a scheme and a value to the changed scheme.
        group: One of `GROUPS`.
        help: One sentence for the command line and the page.
        quark_key: Quark's key for the same thing, or None.
        metavar: What the command line's help calls a value, or None for its type.
        flags: Spelling on the command line, or None if it follows from the name.
    """

    name: str
    kind: Kind
    apply: Callable[[Scheme, Any], Scheme]
    group: str
    help: str
    quark_key: str | None = None
    metavar: str | None = None
    flags: str | None = None


def _parameter(row: Parameter) -> Option:
    """Returns the option for a parameter of a range method."""
    kind = {"number": kinds.NUMBER, "numbers": kinds.NUMBERS, "count": kinds.COUNT, "name": kinds.NAME}[row.kind]
    metavar = "PERCENT" if kind.many else None
    return Option(row.option or row.name, kind, choose_parameter(row.name), _RANGES, row.help, row.quark_key, metavar)


_NAMES = tuple(METHODS)
_METHOD_HELP = f"How ranges of activations are found: {', '.join(_NAMES[:-1])} or {_NAMES[-1]}."

# In the order in which they are applied.
_ROWS = (
    Option(
        "activation_type", kinds.NAME, retype("activation"), _TYPES,
        "Type of activations, e.g. int16, bfloat16, mx9.", metavar="TYPE",
    ),
    Option(
        "weight_type", kinds.NAME, retype("weight"), _TYPES,
        "Type of weights, e.g. int4, uint8, mxfp4_e2m1.", metavar="TYPE",
    ),
    Option(
        "per_channel", kinds.BOOL, changes.set_per_channel, _TYPES,
        "One weight scale for each output channel.", "PerChannel", flags="--per-channel/--per-tensor",
    ),
    Option(
        "group_size", kinds.GROUP, changes.set_group_size, _TYPES,
        "Weights that share a scale, for presets of weights alone: 16 to 256.",
    ),
    Option(
        "activation_symmetric", kinds.BOOL, changes.set_in_spec("activation", "symmetric"), _TYPES,
        "Whether the range of activations is centred on zero.", "ActivationSymmetric",
    ),
    Option(
        "weight_symmetric", kinds.BOOL, changes.set_in_spec("weight", "symmetric"), _TYPES,
        "Whether the range of weights is centred on zero.", "WeightSymmetric",
    ),
    Option(
        "activation_scaled", kinds.BOOL, changes.set_in_spec("activation", "scaled"), _TYPES,
        "Give activations of 16-bit floats a scale.", "ActivationScaled",
    ),
    Option(
        "weight_scaled", kinds.BOOL, changes.set_in_spec("weight", "scaled"), _TYPES,
        "Give weights of 16-bit floats a scale.", "WeightScaled",
    ),
    Option(
        "reduce_range", kinds.BOOL, changes.set_in_spec("weight", "reduce_range"), _TYPES,
        "Use half of the codes of integer weights.", "ReduceRange",
    ),
    Option(
        "bf16_qdq_to_cast", kinds.BOOL, changes.set_casts, _TYPES,
        "Write floats of 8 and 16 bits as pairs of Cast, without custom operators.", "BF16QDQToCast",
    ),
    Option(
        "bf16_with_clip", kinds.BOOL, changes.set_field("clip_bfloat16"), _TYPES,
        "Keep activations that become bfloat16 finite by a Clip.", "BF16WithClip",
    ),
    Option(
        "target", kinds.TARGET, changes.set_target, _MODEL,
        "The device, e.g. ort-cpu; the preset's by default.", metavar="NAME",
    ),
    Option(
        "bias", kinds.BIAS, changes.set_field("bias"), _TYPES,
        "Type of biases: int32, int16, weight (quantized like weights) or float.", metavar="KIND",
    ),
    Option(
        "shares", kinds.SHARES, changes.set_shares, _TYPES,
        "What readers of a tensor share: its pair, its codes (each has a DequantizeLinear), or nothing.",
        metavar="KIND",
    ),
    Option(
        "keep_float_weights", kinds.BOOL, changes.set_field("keep_float_weights"), _TYPES,
        "Keep weights in float32 with a Q/DQ pair behind them.", "AddQDQPairToWeight",
    ),
    Option(
        "packed_weights", kinds.BOOL, changes.set_field("packed_weights"), _TYPES,
        "Store weights of block formats in the bits that the format promises.",
    ),
    Option(
        "force_pass_through", kinds.BOOL, changes.set_field("force_pass_through"), _MODEL,
        "Quantize data movement (Reshape, MaxPool) also where its input is float, unless floats alone read it.",
        "ForceQuantizeNoInputCheck",
    ),
    Option(
        "fold_batch_norm", kinds.BOOL, changes.set_field("fold_batch_norm"), _MODEL,
        "Fold BatchNormalization and other constant factors into layers; on by default.", "FoldBatchNorm",
    ),
    Option(
        "constraints", kinds.SWITCHES, changes.set_constraints, _MODEL,
        "Rules of the target to turn on or off, by name (docs/rules.md): an object of true and false.",
    ),
    Option(
        "shapes", kinds.SHAPES, changes.set_read("shapes", read_shapes), _MODEL,
        "Fixed shapes of inputs and outputs: an object of lists by name.", "FixShapes",
    ),
    Option(
        "opset", kinds.COUNT, changes.set_field("opset"), _MODEL,
        "The operator set to put the model in; newer where its types need that.", "ConvertOpsetVersion",
        metavar="VERSION",
    ),
    Option(
        "contrib_pairs", kinds.BOOL, changes.set_of_pairs("contrib_pairs"), _TYPES,
        "Write Q/DQ pairs in the domain com.microsoft, which has 16 bits in any operator set.", "UseQDQContribOps",
    ),
    Option(
        "float16_scales", kinds.BOOL, changes.set_float16_scales, _TYPES,
        "Leave a float16 model in float16, with float16 scales; it becomes float32 otherwise.",
    ),
    Option(
        "vaiml", kinds.BOOL, changes.set_vaiml, _TYPES,
        "Round constants and inputs alone to bfloat16 (AMD's VAIML).", "EnableVaimlBF16",
    ),
    Option(
        "unshare_constants", kinds.NAMES, changes.set_of_pairs("unshare_constants"), _MODEL,
        "Copy constants that several nodes of these types read; * means all.", metavar="TYPE",
    ),
    Option(
        "fuse", kinds.PAIRS, changes.set_read("fuse", lambda value: tuple(map(tuple, value))), _MODEL,
        "Operator types between which no pair stands, first and second: a list of pairs.", "RemoveQDQBetweenOps",
    ),
    Option(
        "equalize", kinds.BOOL, changes.set_equalize, _MODEL,
        "Cross-layer equalization: scale channels first, so that weights need fewer bits.",
    ),
    Option(
        "equalize_options", kinds.SETTINGS, changes.set_equalization, _MODEL,
        "Settings of equalization, which they turn on: an object (docs/algorithms.md).",
    ),
    Option(
        "rotation", kinds.ROTATION, changes.set_rotation, _MODEL,
        "Turn residual streams of transformers by Hadamard matrices: none, hadamard, random (signs).",
        metavar="KIND",
    ),
    Option(
        "smooth_alpha", kinds.NUMBER, changes.set_smooth_alpha, _MODEL,
        "SmoothQuant: the part, from 0 to 1, of what stands out in front of matrix products that weights take over.",
        metavar="ALPHA",
    ),
    Option(
        "shift_activations", kinds.BOOL, changes.set_shift_activations, _MODEL,
        "Subtract offsets from activations behind Relu and around layers, so that symmetric codes have smaller scales.",
    ),
    Option(
        "align_scales", kinds.BOOL, changes.set_align_scales, _MODEL,
        "Multiply tensors so that power-of-two scales fit them; by default with rounding by descent.",
    ),
    Option(
        "search_ranges", kinds.BOOL, changes.set_search_ranges, _RANGES,
        "Choose ranges of activations by what they do to outputs; by default between two kinds, with rounding among "
        "more, unless method is given.",
    ),
    Option(
        "portable", kinds.BOOL, changes.set_field("portable"), _MODEL,
        "For CPUs: make weights smaller where 16-bit sums saturate without VNNI.",
    ),
    Option(
        "bias_correction", kinds.BOOL, changes.set_field("bias_correction"), _TYPES,
        "Biases make up for what rounded weights add to the mean of a layer's output.", "BiasCorrection",
    ),
    Option(
        "output_bias_correction", kinds.BOOL, changes.set_output_bias_correction, _TYPES,
        "Biases make up for the mean error of their layers' outputs in the quantized model, layer by layer.",
    ),
    Option(
        "rounding", kinds.ROUNDING, changes.set_rounding, _TYPES,
        "How codes of weights are chosen: nearest to them, or by outputs (descent, adaround, adaquant, gptq).",
        metavar="METHOD",
    ),
    Option(
        "rounding_damping", kinds.NUMBER, changes.set_rounding_damping, _TYPES,
        "Damping beside rounding: added to the diagonal of Gram matrices, as a part of its mean; 0.01 by default.",
    ),
    Option(
        "strict", kinds.BOOL, changes.set_field("strict"), _TYPES,
        "Keep weights and ranges of a preset as its name says, even where they spoil outputs.",
    ),
    Option(
        "policy", kinds.POLICY, changes.set_read("policy", read_policy), _MODEL,
        "Thresholds of accuracy that differ: an object by name (docs/policy.md).", flags="--policy-values",
    ),
    Option(
        "op_types", kinds.NAMES, changes.set_field("op_types"), _SELECTION,
        "Quantize only operators of this type.", "OpTypesToQuantize", "TYPE",
    ),
    Option(
        "extra_op_types", kinds.NAMES, changes.set_extra, _SELECTION,
        "Quantize operators of this type too, though the target has no rule for it; * means all.",
        "ExtraOpTypesToQuantize", "TYPE",
    ),
    Option(
        "include", kinds.NAMES, changes.set_field("include"), _SELECTION,
        "Quantize only nodes of this name, glob or ^regular expression.", "NodesToQuantize", "NODE",
    ),
    Option(
        "input_nodes", kinds.NAMES, changes.set_field("input_nodes"), _SELECTION,
        "Leave what lies in front of these nodes alone in float.", "InputNodes", "NODE",
    ),
    Option(
        "output_nodes", kinds.NAMES, changes.set_field("output_nodes"), _SELECTION,
        "Leave what lies behind these nodes in float.", "OutputNodes", "NODE",
    ),
    Option(
        "exclude", kinds.EXCLUDE, changes.set_read("exclude", read_exclude), _SELECTION,
        "Leave nodes of this name, glob or ^regex in float.", "NodesToExclude", "NODE",
    ),
    Option(
        "exclude_op_types", kinds.NAMES, changes.set_field("exclude_op_types"), _SELECTION,
        "Leave operators of this type in float.", "OpTypesToExclude", "TYPE",
    ),
    Option(
        "exclude_outputs", kinds.NAMES, changes.set_field("exclude_outputs"), _SELECTION,
        "Give what these nodes compute no pair, unless what reads it is quantized.",
        "NodesToExcludeOutputQuantization", "NODE",
    ),
    Option(
        "exclude_output_types", kinds.NAMES, changes.set_field("exclude_output_types"), _SELECTION,
        "The same for all operators of this type.", "OpTypesToExcludeOutputQuantization", "TYPE",
    ),
    Option(
        "layers", kinds.RULES, changes.set_read("layers", read_layers), _SELECTION,
        "Settings of single layers: a list of objects.",
    ),
    Option(
        "tensors", kinds.MAPPING, changes.set_read("tensors", read_overrides), _SELECTION,
        "Settings of single tensors: an object by tensor name.", "TensorQuantOverrides",
    ),
    Option(
        "mixed_precision", kinds.MIXED, changes.set_mixed_precision, _SELECTION,
        "Other types for layers, chosen by what they do to the outputs: an object (docs/quality.md).",
    ),
    Option(
        "samples", kinds.COUNT, changes.set_field("samples"), _DATA,
        "How many samples to read; all by default.", "CalibDataSize",
    ),
    Option("batch_size", kinds.COUNT, changes.set_field("batch_size"), _DATA, "Samples in one calibration run."),
    Option(
        "preprocess", kinds.PREPROCESS, changes.set_preprocess, _DATA,
        "How image files become inputs: imagenet, cifar, yolo (divides by 255), yolox, none, JSON.", metavar="HOW",
    ),
    Option(
        "method", kinds.METHOD, choose_method("activation"), _RANGES, _METHOD_HELP, "CalibrateMethod", "METHOD",
    ),
    Option(
        "weight_method", kinds.METHOD, choose_method("weight"), _RANGES,
        "How ranges of weights are found; the same names.", "WeightCalibrateMethod", "METHOD",
    ),
    Option(
        "moving_average", kinds.BOOL, choose_moving_average, _RANGES,
        "Average the extremes of runs, with minmax.", "CalibMovingAverage",
    ),
    *map(_parameter, PARAMETERS.values()),
    Option(
        "range_symmetric", kinds.BOOL, choose("activation", "range_symmetric"), _RANGES,
        "Whether ranges are symmetric around zero; by default as codes are.", "CalibTensorRangeSymmetric",
    ),
)  # fmt: skip

_BY_NAME = {option.name: option for option in _ROWS}

OPTIONS: Mapping[str, Option] = MappingProxyType(_BY_NAME)
"""Name -> option. Every option may also be given by Quark's key."""
