"""From Quark's configurations to a scheme: one way in, whatever the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from quarkfast.config.options import OPTIONS, apply_options
from quarkfast.config.presets import PRESETS, default_target
from quarkfast.config.quark.algorithm import AlgoConfig, CLEConfig
from quarkfast.config.quark.blocks import block_of, block_rounding
from quarkfast.config.quark.enums import CalibMethod, QuantGranularity, ScaleType
from quarkfast.config.quark.keys import ALGORITHM_KEYS, DEAD_KEYS, NEUTRAL_VALUES, UNSUPPORTED_KEYS
from quarkfast.config.quark.legacy import Config, QuantizationConfig
from quarkfast.config.quark.nbits import nbits_scheme
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.config.quark.spec import QLayerConfig, QTensorConfig
from quarkfast.config.rules import Change, LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import ScaleKind, TensorSpec
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean
from quarkfast.formats import find, find_by_quant_type
from quarkfast.formats.block import Rounding
from quarkfast.ranges.registry import METHODS

__all__ = ["scheme_of"]

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
_SCALES = {ScaleType.Float32: "float32", ScaleType.PowerOf2: "power_of_two", ScaleType.Int16: "int16"}
_GRANULARITIES = {
    QuantGranularity.Tensor: "tensor",
    QuantGranularity.Channel: "channel",
    QuantGranularity.Group: "group",
}
_QCONFIG_METHODS = {
    CalibMethod.MinMax: "minmax",
    CalibMethod.MinMSE: "minmse",
    CalibMethod.Percentile: "percentile",
    CalibMethod.Entropy: "entropy",
    CalibMethod.LayerwisePercentile: "layerwise_percentile",
    CalibMethod.Distribution: "distribution",
}
_BLOCK_ATTRIBUTES = {"QBFP": "BFPAttributes", "QMX": "MXAttributes"}
_FIELD_ALGORITHMS = {
    "include_sq": "SmoothQuant",
    "include_rotation": "QuaRot",
    "include_auto_mp": "automatic mixed precision",
}
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


def scheme_of(config: Config | QConfig | QuantizationConfig) -> Scheme:
    """Return the scheme that a configuration of Quark amounts to.

    Args:
        config: A ``Config``, a ``QuantizationConfig`` or a ``QConfig``; it is not changed.

    Raises:
        UnsupportedError: It asks for an algorithm, type or option that does not exist here yet.
        ConfigError: It is of another kind, or an option is unknown.

    Example:
        >>> from quarkfast.config.quark.legacy import get_default_config
        >>> scheme_of(get_default_config("BF16")).activation.dtype
        'bfloat16'
    """
    if isinstance(config, Config):
        config = config.global_quant_config
    if isinstance(config, QuantizationConfig):
        return _from_legacy(config)
    if isinstance(config, QConfig):
        return _from_qconfig(config)
    raise ConfigError(f"config: expected a Config or a QConfig, got {type(config).__name__}")


def refuse_algorithms(algorithms: list[AlgoConfig] | None) -> None:
    """Raise for the first algorithm that does not exist yet: any but one step of cross-layer equalization.

    Raises:
        UnsupportedError: there is one.
    """
    for algorithm in algorithms or []:
        if isinstance(algorithm, CLEConfig) and algorithm.cle_steps == 1 and not algorithm.options:
            continue
        raise UnsupportedError(f"algorithms: expected none in this version, got {algorithm.name}; leave it out")


def _from_legacy(config: QuantizationConfig) -> Scheme:
    options = config.extra_options
    finetune = options.get("FastFinetune")
    if config.include_fast_ft or finetune:
        name = str((finetune or {}).get("OptimAlgorithm", "adaround")).lower()
        refuse_algorithms([_named("AdaQuant" if name == "adaquant" else "AdaRound")])
    if options.get("UseMatMulNBits"):
        return nbits_scheme(options)
    changed = config.changed()
    for key, algorithm in _FIELD_ALGORITHMS.items():
        if key in changed:
            refuse_algorithms([_named(algorithm)])
    for key, value in changed.items():
        if key not in _NEUTRAL_FIELDS | _TRANSLATED_FIELDS:
            raise UnsupportedError(f"QuantizationConfig: {key}: expected its default in this version, got {value!r}")
    method, scale = _method(config.calibrate_method)
    activation = _legacy_dtype(config.activation_type, options)
    weight = _legacy_dtype(config.weight_type, options)
    symmetric = options.get("ActivationSymmetric", not find(activation).is_integer)
    weight_symmetric = options.get("WeightSymmetric", find(weight).signed)
    granularity = "channel" if config.per_channel else "tensor"
    scheme = _scheme(
        _spec(activation, symmetric, "tensor", scale, method),
        _spec(weight, weight_symmetric, granularity, scale, "minmse" if scale == "power_of_two" else "minmax"),
        config.enable_npu_cnn,
        options.get("ForceQuantizeNoInputCheck", False),
    )
    if config.enable_npu_transformer:
        scheme = replace(scheme, target="ryzenai-transformer")
    if config.use_dynamic_quant:
        scheme = _dynamic(scheme.weight)
    scheme = replace(scheme, block_rounding=block_rounding((activation, weight), options, "half_away"))
    scheme = _equalized(scheme, config.include_cle)
    selection = {
        "include": config.nodes_to_quantize,
        "exclude": [*config.nodes_to_exclude, *config.subgraphs_to_exclude],
        "op_types": config.op_types_to_quantize,
        "reduce_range": config.reduce_range,
    }
    given = {key: value for key, value in selection.items() if value}
    return apply_options(scheme, {**_translated_options(options), **given})


def _dynamic(weight: TensorSpec) -> Scheme:
    """Returns the preset with other weights; Quark takes their extremes, whatever the method for activations."""
    return replace(PRESETS["DYNAMIC"], weight=replace(weight, scale="float32", method="minmax"))


def _equalized(scheme: Scheme, wanted: bool) -> Scheme:
    """Returns the scheme with equalization or without; 16-bit floats have an exponent of their own and need none."""
    return replace(scheme, equalize=wanted and not scheme.weight.format.may_be_scaled)


def _from_qconfig(config: QConfig) -> Scheme:
    refuse_algorithms(config.algo_config)
    layer, options = config.global_config, config.extra_options
    if options.get("UseMatMulNBits"):
        return nbits_scheme(options)
    if layer.output_tensors is not None and layer.output_tensors != layer.input_tensors:
        raise UnsupportedError("QConfig: output_tensors: expected the same as input_tensors in this version")
    activation = _tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method)
    weight = _tensor_spec(layer.weight, _weight_method(layer.weight))
    npu_cnn = options.get("EnableNPUCnn", _is_power_of_two(layer.input_tensors) and _is_power_of_two(layer.weight))
    scheme = _scheme(activation, weight, npu_cnn, options.get("ForceQuantizeNoInputCheck", False))
    dtypes = activation.dtype, weight.dtype
    # Quark fills in attributes for its MX formats only; BFP16 keeps the operator's default.
    kept = any(find(dtype).is_block and not find(dtype).operands_only for dtype in dtypes)
    default: Rounding = "half_away" if kept else "half_even"
    scheme = replace(scheme, block_rounding=block_rounding(dtypes, options, default))
    scheme = _equalized(scheme, any(isinstance(each, CLEConfig) for each in config.algo_config or ()))
    given: dict[str, Any] = {"exclude": list(config.exclude)} if config.exclude else {}
    if None in config.layer_type_config:
        given["exclude_op_types"] = list(config.layer_type_config[None])
    if rules := _layer_rules(config):
        given["layers"] = rules
    return apply_options(scheme, {**_translated_options(options), **given})


def _layer_rules(config: QConfig) -> list[LayerRule]:
    """Returns the rules for operator types, then those for nodes, which win (Quark's specification, section 1.3)."""
    rules = [
        replace(_layer_rule(layer), op_types=tuple(types))
        for layer, types in config.layer_type_config.items()
        if layer is not None
    ]
    return rules + [
        replace(_layer_rule(layer), nodes=tuple(names)) for layer, names in config.specific_layer_config.items()
    ]


def _layer_rule(layer: QLayerConfig) -> LayerRule:
    inputs = _change(_tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method))
    output = layer.output_tensors
    return LayerRule(
        activation=inputs,
        weight=_change(_tensor_spec(layer.weight, _weight_method(layer.weight))),
        output=None if output is None else _change(_tensor_spec(output, output.calibration_method)),
    )


def _change(spec: TensorSpec) -> Change:
    return Change(tuple(sorted(asdict(spec).items())))


def _named(name: str) -> AlgoConfig:
    algorithm = AlgoConfig()
    algorithm.name = name
    return algorithm


def _scheme(activation: TensorSpec, weight: TensorSpec, npu_cnn: bool, forced: bool) -> Scheme:
    """Choose the target as Quark's quantizers do (specification of Quark, sections 1.3 and 6)."""
    if npu_cnn:
        target = "ryzenai-xint8"
    elif activation.format.is_integer and not activation.symmetric:
        target = "ort-cpu"
    else:
        target = default_target(activation)
    for preset in PRESETS.values():
        if (preset.activation.dtype, preset.weight.dtype, preset.target) == (activation.dtype, weight.dtype, target):
            return replace(preset, activation=activation, weight=weight, force_pass_through=forced)
    name = f"{activation.dtype}-{weight.dtype}"
    return Scheme(name, target, activation, weight, bias=None, force_pass_through=forced)


def _is_power_of_two(config: QTensorConfig) -> bool:
    return config.scale_type is ScaleType.PowerOf2


def _weight_method(config: QTensorConfig) -> CalibMethod:
    """Weights are all there, so Quark takes their extremes unless it searches (its specification, section 1.3)."""
    searches = _is_power_of_two(config) or config.calibration_method is CalibMethod.MinMSE
    return config.calibration_method if searches else CalibMethod.MinMax


def _tensor_spec(config: QTensorConfig, calibration: CalibMethod) -> TensorSpec:
    scale, method = _SCALES[config.scale_type], _QCONFIG_METHODS[calibration]
    if _is_power_of_two(config) and calibration is CalibMethod.MinMax:
        method = "nonoverflow"
    return _spec(config.data_type.dtype, config.symmetric, _GRANULARITIES[config.quant_granularity], scale, method)


def _spec(dtype: str, symmetric: bool, granularity: str, scale: str, method: str) -> TensorSpec:
    if not find(dtype).is_integer:
        method, scale = "minmax", "float32"
    return TensorSpec(
        dtype,
        symmetric,
        _one_of(granularity, ("tensor", "channel"), "granularity"),
        _one_of(scale, get_args(ScaleKind), "scale type"),
        _one_of(method, tuple(METHODS), "calibration method"),
    )


def _one_of(value: str, known: tuple[str, ...], what: str) -> Any:
    if value not in known:
        raise UnsupportedError(f"{what}: expected {' or '.join(known)} in this version, got {value}")
    return value


def _method(member: Any) -> tuple[str, str]:
    """Find a calibration method by the names of its class and member: ONNX Runtime's own enumerations are welcome."""
    key = type(member).__name__, getattr(member, "name", "")
    if key not in _METHODS:
        raise ConfigError(f"calibrate_method: expected a calibration method, got {member!r}")
    return _METHODS[key]


def _legacy_dtype(member: Any, options: Mapping[str, Any]) -> str:
    name = getattr(member, "name", "")
    row = find_by_quant_type(name)
    if row is None:
        raise ConfigError(f"quantized type: expected a member of QuantType or ExtendedQuantType, got {member!r}")
    return block_of(_BLOCK_ATTRIBUTES[name], options) if row.is_block else row.name


def _translated_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a row here; refuse the others unless their value changes nothing."""
    rows = {option.quark_key for option in OPTIONS.values()} | set(OPTIONS)
    read = {"ActivationSymmetric", "WeightSymmetric", "ForceQuantizeNoInputCheck", "EnableNPUCnn"}
    read |= {"BFPAttributes", "MXAttributes", "QuantizeBias", "Int32Bias"}
    known = rows | set(NEUTRAL_VALUES) | set(ALGORITHM_KEYS) | set(DEAD_KEYS) | set(UNSUPPORTED_KEYS) | read
    kept = {}
    for key, value in options.items():
        if key in read:
            continue
        if key in rows:
            kept[key] = value
        elif key in ALGORITHM_KEYS:
            refuse_algorithms([_named(ALGORITHM_KEYS[key])])
        elif key in DEAD_KEYS:
            raise ConfigError(f"option {key}: expected an option with an effect, got {value!r}; {DEAD_KEYS[key]}")
        elif key in UNSUPPORTED_KEYS:
            raise UnsupportedError(f"option {key}: expected it left out in this version, got {value!r}")
        elif key not in known:
            names = [str(name) for name in known if name]
            raise ConfigError(f"option: expected a known name, got {key!r}{did_you_mean(key, names)}")
        elif value not in NEUTRAL_VALUES[key]:
            expected = " or ".join(map(repr, NEUTRAL_VALUES[key]))
            raise UnsupportedError(f"option {key}: expected {expected} in this version, got {value!r}")
    # Quark: no quantized bias at all, or one that is treated like a weight.
    if options.get("QuantizeBias") is False:
        kept["bias"] = "float"
    elif options.get("Int32Bias") is False:
        kept["bias"] = "weight"
    return kept
