"""Translates Quark's older configuration to a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.presets import PRESETS
from quarkfast.config.quark.assemble import make_scheme, make_spec
from quarkfast.config.quark.blocks import block_of, block_rounding
from quarkfast.config.quark.extra_options import translated_options
from quarkfast.config.quark.finetuning import finetuned
from quarkfast.config.quark.gptq import gptq_parameters, gptq_scheme, nbits_scheme
from quarkfast.config.quark.legacy import QuantizationConfig
from quarkfast.config.quark.mixed_precision import mixed
from quarkfast.config.quark.smoothing import equalized_as_asked, rotated_as_asked, smoothed_as_asked
from quarkfast.config.quark.whole_model import stored_as_asked, weights_alone, with_scales
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.formats import find, find_by_quant_type

__all__ = ["scheme_of_legacy"]

# Enumerations of calibration methods, by class and member, as (method, scale).
_METHODS = {
    ("CalibrationMethod", "MinMax"): ("minmax", "float32"),
    ("CalibrationMethod", "Entropy"): ("entropy", "float32"),
    ("CalibrationMethod", "Percentile"): ("percentile", "float32"),
    ("CalibrationMethod", "Distribution"): ("distribution", "float32"),
    ("PowerOfTwoMethod", "NonOverflow"): ("nonoverflow", "power_of_two"),
    ("PowerOfTwoMethod", "MinMSE"): ("minmse", "power_of_two"),
    ("Int16Method", "MinMax"): ("minmax", "dyadic"),
    ("LayerWiseMethod", "LayerWisePercentile"): ("layerwise_percentile", "float32"),
}
# Formats by member -> the key of the attributes that activations and weights have then.
_FORMATS = {"QDQ": "", "FixNeuron": "", "BFPFixNeuron": "BFPAttributes", "MXFixNeuron": "MXAttributes"}
_BLOCK_ATTRIBUTES = {"QBFP": "BFPAttributes", "QMX": "MXAttributes"}
# Fields that only concern how Quark itself runs (`quarkfast.config.quark.notes`), or a model's ends (`plain`).
_NEUTRAL_FIELDS = {
    "convert_fp16_to_fp32", "convert_nchw_to_nhwc", "crypto_mode", "debug_mode", "execution_providers",
    "use_external_data_format", "print_summary", "ignore_warnings", "include_fast_ft", "include_auto_mp",
}  # fmt: skip
_TRANSLATED_FIELDS = {
    "calibrate_method", "activation_type", "weight_type", "extra_options", "per_channel", "nodes_to_exclude",
    "nodes_to_quantize", "subgraphs_to_exclude", "op_types_to_quantize", "enable_npu_cnn", "reduce_range",
    "enable_npu_transformer", "use_dynamic_quant", "include_cle", "optimize_model", "quant_format",
    "extra_op_types_to_quantize", "input_nodes", "output_nodes", "specific_tensor_precision", "include_rotation",
    "include_sq",
}  # fmt: skip


def scheme_of_legacy(config: QuantizationConfig) -> Scheme:
    """Return the scheme that a ``QuantizationConfig`` describes.

    Raises:
        UnsupportedError: it asks for something that quarkfast does not support yet.
        ConfigError: a method, type or option is unknown.
    """
    options = _options(config)
    finetuning = config.include_fast_ft or bool(options.get("FastFinetune"))
    gptq, nbits = gptq_parameters(None, options), options.get("UseMatMulNBits")
    _check_fields(config.changed())
    if gptq is not None or nbits:
        scheme = nbits_scheme(options) if nbits else gptq_scheme(gptq or {}, options)
        scheme = finetuned(scheme, {}) if finetuning else scheme
        scheme = rotated_as_asked(scheme, None, options, wanted=config.include_rotation)
        scheme = smoothed_as_asked(scheme, None, options, wanted=config.include_sq)
        return stored_as_asked(scheme, options, _selection(config))
    scheme = weights_alone(_base(config, options), options)
    scheme = rotated_as_asked(scheme, None, options, wanted=config.include_rotation)
    scheme = smoothed_as_asked(scheme, None, options, wanted=config.include_sq)
    if finetuning:
        scheme = finetuned(scheme, options.get("FastFinetune") or {})
    if config.include_auto_mp or options.get("AutoMixprecision"):
        scheme = mixed(scheme, options.get("AutoMixprecision") or {}, options)
    found = apply_options(scheme, {**translated_options(options, scheme), **_selection(config)})
    return with_scales(found, options)


def _options(config: QuantizationConfig) -> dict[str, Any]:
    """Returns the extra options, with fields that have a key of their own; the key wins."""
    fields: dict[str, Any] = {} if config.optimize_model else {"OptimizeModel": False}
    fields |= {"SpecificTensorPrecision": True} if config.specific_tensor_precision else {}
    return {**fields, **config.extra_options}


def _base(config: QuantizationConfig, options: Mapping[str, Any]) -> Scheme:
    """Returns the scheme of types, method and target."""
    method, scale = _method(config.calibrate_method)
    block = _block(config.quant_format)
    activation = block_of(block, options) if block else _dtype(config.activation_type, options)
    weight = block_of(block, options) if block else _dtype(config.weight_type, options)
    symmetric = options.get("ActivationSymmetric", not find(activation).is_integer)
    weight_symmetric = options.get("WeightSymmetric", find(weight).signed)
    granularity = "channel" if config.per_channel else "tensor"
    scheme = make_scheme(
        make_spec(activation, symmetric, "tensor", scale, method),
        make_spec(weight, weight_symmetric, granularity, scale, "minmse" if scale == "power_of_two" else "minmax"),
        options.get("EnableNPUCnn", config.enable_npu_cnn),
        options.get("ForceQuantizeNoInputCheck", False),
    )
    if config.enable_npu_transformer:
        scheme = replace(scheme, target="ryzenai-transformer")
    if config.use_dynamic_quant:
        # BatchNormalization spreads the channels of a weight, and one scale is too few for them: ResNet-20 has 28.3 dB
        # with it folded and 30.5 without. Quark, and ONNX Runtime, fold nothing here.
        scheme = replace(_dynamic(scheme.weight, options), fold_batch_norm=granularity == "channel")
    scheme = replace(scheme, block_rounding=block_rounding((activation, weight), options, "half_away"))
    return equalized_as_asked(scheme, None, options, wanted=config.include_cle)


def _selection(config: QuantizationConfig) -> dict[str, Any]:
    """Returns the options that fields amount to."""
    selection = {
        "include": config.nodes_to_quantize,
        "exclude": [*config.nodes_to_exclude, *config.subgraphs_to_exclude],
        "op_types": config.op_types_to_quantize,
        "extra_op_types": config.extra_op_types_to_quantize,
        "input_nodes": config.input_nodes,
        "output_nodes": config.output_nodes,
        "reduce_range": config.reduce_range,
    }
    return {key: value for key, value in selection.items() if value}


def _check_fields(changed: Mapping[str, Any]) -> None:
    for key, value in changed.items():
        if key not in _NEUTRAL_FIELDS | _TRANSLATED_FIELDS:
            raise UnsupportedError(f"QuantizationConfig: {key}: expected its default in this version, got {value!r}")


def _block(quant_format: Any) -> str:
    """Returns the key of the block format that a format of Quark's earlier versions forces; nothing for the others.

    Raises:
        UnsupportedError: Operators in integers are wanted.
        ConfigError: It is no format.
    """
    name = getattr(quant_format, "name", "")
    if name == "QOperator":
        raise UnsupportedError("quant_format: expected QDQ in this version, got QOperator")
    if name not in _FORMATS:
        raise ConfigError(f"quant_format: expected QuantFormat.QDQ or ExtendedQuantFormat.QDQ, got {quant_format!r}")
    return _FORMATS[name]


def _dynamic(weight: TensorSpec, options: Mapping[str, Any]) -> Scheme:
    """Returns the preset DYNAMIC with this weight; Quark uses MinMax for it, whatever the method for activations.

    Raises:
        UnsupportedError: Activations are to be symmetric, which DynamicQuantizeLinear does not make them.
    """
    symmetric = options.get("ActivationSymmetric")
    if symmetric:
        raise UnsupportedError(f"option ActivationSymmetric: expected False with use_dynamic_quant, got {symmetric!r}")
    return replace(PRESETS["DYNAMIC"], weight=replace(weight, scale="float32", method="minmax"))


def _method(member: Any) -> tuple[str, str]:
    """Find a calibration method by the names of its class and member, so that ONNX Runtime's enumerations do too."""
    key = type(member).__name__, getattr(member, "name", "")
    if key not in _METHODS:
        raise ConfigError(f"calibrate_method: expected a calibration method, got {member!r}")
    return _METHODS[key]


def _dtype(member: Any, options: Mapping[str, Any]) -> str:
    name = getattr(member, "name", "")
    row = find_by_quant_type(name)
    if row is None:
        raise ConfigError(f"quantized type: expected a member of QuantType or ExtendedQuantType, got {member!r}")
    return block_of(_BLOCK_ATTRIBUTES[name], options) if row.is_block else row.name
