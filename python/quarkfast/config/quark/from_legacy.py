"""Translates Quark's older configuration to a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.presets import PRESETS
from quarkfast.config.quark.algorithm import refuse_algorithm
from quarkfast.config.quark.assemble import equalized, make_scheme, make_spec
from quarkfast.config.quark.blocks import block_of, block_rounding
from quarkfast.config.quark.extra_options import translated_options
from quarkfast.config.quark.finetuning import finetuned
from quarkfast.config.quark.gptq import gptq_parameters, gptq_scheme
from quarkfast.config.quark.legacy import QuantizationConfig
from quarkfast.config.quark.nbits import nbits_scheme
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
    ("Int16Method", "MinMax"): ("minmax", "int16"),
    ("LayerWiseMethod", "LayerWisePercentile"): ("layerwise_percentile", "float32"),
}
_FIELD_ALGORITHMS = {
    "include_sq": "SmoothQuant",
    "include_rotation": "QuaRot",
    "include_auto_mp": "automatic mixed precision",
}
_BLOCK_ATTRIBUTES = {"QBFP": "BFPAttributes", "QMX": "MXAttributes"}
# Fields that only concern how Quark itself runs.
_NEUTRAL_FIELDS = {
    "optimize_model", "use_external_data_format", "print_summary", "ignore_warnings", "debug_mode",
    "include_fast_ft", "quant_format", "execution_providers",
}  # fmt: skip
_TRANSLATED_FIELDS = {
    "calibrate_method", "activation_type", "weight_type", "extra_options", "per_channel", "nodes_to_exclude",
    "nodes_to_quantize", "subgraphs_to_exclude", "op_types_to_quantize", "enable_npu_cnn", "reduce_range",
    "enable_npu_transformer", "use_dynamic_quant", "include_cle",
}  # fmt: skip


def scheme_of_legacy(config: QuantizationConfig) -> Scheme:
    """Return the scheme that a ``QuantizationConfig`` describes.

    Raises:
        UnsupportedError: it asks for something that quarkfast does not support yet.
        ConfigError: a method, type or option is unknown.
    """
    options = config.extra_options
    finetuning = config.include_fast_ft or bool(options.get("FastFinetune"))
    gptq = gptq_parameters(None, options)
    if gptq is not None and not options.get("UseMatMulNBits"):
        chosen = {"exclude": [*config.nodes_to_exclude], "op_types": config.op_types_to_quantize}
        scheme = gptq_scheme(gptq, options)
        scheme = finetuned(scheme, {}) if finetuning else scheme
        return apply_options(scheme, {key: value for key, value in chosen.items() if value})
    if options.get("UseMatMulNBits"):
        return finetuned(nbits_scheme(options), {}) if finetuning else nbits_scheme(options)
    _check_fields(config.changed())
    method, scale = _method(config.calibrate_method)
    activation = _dtype(config.activation_type, options)
    weight = _dtype(config.weight_type, options)
    symmetric = options.get("ActivationSymmetric", not find(activation).is_integer)
    weight_symmetric = options.get("WeightSymmetric", find(weight).signed)
    granularity = "channel" if config.per_channel else "tensor"
    scheme = make_scheme(
        make_spec(activation, symmetric, "tensor", scale, method),
        make_spec(weight, weight_symmetric, granularity, scale, "minmse" if scale == "power_of_two" else "minmax"),
        config.enable_npu_cnn,
        options.get("ForceQuantizeNoInputCheck", False),
    )
    if config.enable_npu_transformer:
        scheme = replace(scheme, target="ryzenai-transformer")
    if config.use_dynamic_quant:
        scheme = _dynamic(scheme.weight)
    scheme = replace(scheme, block_rounding=block_rounding((activation, weight), options, "half_away"))
    scheme = equalized(scheme, config.include_cle)
    if finetuning:
        scheme = finetuned(scheme, options.get("FastFinetune") or {})
    selection = {
        "include": config.nodes_to_quantize,
        "exclude": [*config.nodes_to_exclude, *config.subgraphs_to_exclude],
        "op_types": config.op_types_to_quantize,
        "reduce_range": config.reduce_range,
    }
    given = {key: value for key, value in selection.items() if value}
    return apply_options(scheme, {**translated_options(options), **given})


def _check_fields(changed: Mapping[str, Any]) -> None:
    for key, algorithm in _FIELD_ALGORITHMS.items():
        if key in changed:
            refuse_algorithm(algorithm)
    for key, value in changed.items():
        if key not in _NEUTRAL_FIELDS | _TRANSLATED_FIELDS:
            raise UnsupportedError(f"QuantizationConfig: {key}: expected its default in this version, got {value!r}")


def _dynamic(weight: TensorSpec) -> Scheme:
    """Returns the preset DYNAMIC with this weight; Quark uses MinMax for it, whatever the method for activations."""
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
