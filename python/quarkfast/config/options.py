"""The options that change a preset: one row each, with Quark's key for the same thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args

from quarkfast import formats
from quarkfast.config.method_options import choose, choose_method, choose_moving_average, choose_parameter, is_method
from quarkfast.config.overrides import read_overrides
from quarkfast.config.presets import find_preset
from quarkfast.config.rules import BiasKind, read_exclude, read_layers
from quarkfast.config.scheme import Scheme
from quarkfast.config.stored_weights import check_stored_weights
from quarkfast.config.types import check_types, retype
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["OPTIONS", "Option", "apply_options", "scheme_from"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, Quark's key, the accepted values in words, how to read and how to apply one."""

    name: str
    quark_key: str | None
    expects: str
    accepts: Callable[[Any], bool]
    apply: Callable[[Scheme, Any], Scheme]


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_group(value: Any) -> bool:
    return _is_count(value) and value in (16, 32, 64, 128, 256)


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _per_channel(scheme: Scheme, value: bool) -> Scheme:
    changes: dict[str, Any] = {"granularity": "channel" if value else "tensor"}
    if value and scheme.weight.method == "minmse" and scheme.weight.scale == "float32":
        changes["method"] = "minmax"  # A channel has few values, and its extremes are among them.
    if not value and scheme.encoding == "dynamic" and scheme.weight.granularity == "channel":
        changes["method"] = "minmse"
    return replace(scheme, weight=replace(scheme.weight, **changes))


def _group_size(scheme: Scheme, value: int) -> Scheme:
    if not scheme.weights_only or not scheme.weight.format.is_integer:
        raise ConfigError(f"group_size: expected a preset of integer weights alone, got {scheme.name}; leave it out")
    return replace(scheme, weight=replace(scheme.weight, granularity="group", group_size=value))


def _equalize(scheme: Scheme, value: bool) -> Scheme:
    if value and scheme.weights_only:
        raise ConfigError(f"equalize: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    return replace(scheme, equalize=value)


def _target(scheme: Scheme, value: str) -> Scheme:
    if scheme.weights_only:
        raise ConfigError(f"target: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    placed = replace(scheme, target=value)
    return scheme if placed == scheme else replace(placed, bias=None)


def _cast(scheme: Scheme, value: bool) -> Scheme:
    return replace(scheme, encoding="cast" if value else "qdq")


def _in_spec(field: str, attribute: str) -> Callable[[Scheme, bool], Scheme]:
    def apply(scheme: Scheme, value: bool) -> Scheme:
        changed: dict[str, Any] = {field: replace(getattr(scheme, field), **{attribute: value})}
        return replace(scheme, **changed)

    return apply


def _set(field: str) -> Callable[[Scheme, Any], Scheme]:
    def apply(scheme: Scheme, value: Any) -> Scheme:
        changed: dict[str, Any] = {field: tuple(value) if isinstance(value, list) else value}
        return replace(scheme, **changed)

    return apply


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_number(item) for item in value)


def _read(field: str, read: Callable[[Any], Any]) -> Callable[[Scheme, Any], Scheme]:
    def apply(scheme: Scheme, value: Any) -> Scheme:
        changed: dict[str, Any] = {field: read(value)}
        return replace(scheme, **changed)

    return apply


_BOOL, _COUNT, _METHOD = "True or False", "an integer greater than 0", "the name of a method"
_GROUP = "16, 32, 64, 128 or 256"
_NAME, _NAMES = "a string", "a list of strings"
_NUMBER, _NUMBERS = "a number", "a list of numbers"
_BIAS, _TARGET = "int32, weight or float", "the name of a target or a Target"
_EXCLUDE = "a list of strings and of pairs of lists of strings"
_RULES, _MAPPING = "a list of mappings", "a mapping from names of tensors to mappings"

OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        option.name: option
        for option in (
            Option("activation_type", None, _NAME, _is_name, retype("activation")),
            Option("weight_type", None, _NAME, _is_name, retype("weight")),
            Option("per_channel", "PerChannel", _BOOL, _is_bool, _per_channel),
            Option("group_size", None, _GROUP, _is_group, _group_size),
            Option("activation_symmetric", "ActivationSymmetric", _BOOL, _is_bool, _in_spec("activation", "symmetric")),
            Option("weight_symmetric", "WeightSymmetric", _BOOL, _is_bool, _in_spec("weight", "symmetric")),
            Option("activation_scaled", "ActivationScaled", _BOOL, _is_bool, _in_spec("activation", "scaled")),
            Option("weight_scaled", "WeightScaled", _BOOL, _is_bool, _in_spec("weight", "scaled")),
            Option("reduce_range", "ReduceRange", _BOOL, _is_bool, _in_spec("weight", "reduce_range")),
            Option("bf16_qdq_to_cast", "BF16QDQToCast", _BOOL, _is_bool, _cast),
            Option("bf16_with_clip", "BF16WithClip", _BOOL, _is_bool, _set("clip_bfloat16")),
            Option("target", None, _TARGET, _is_name, _target),
            Option("bias", None, _BIAS, lambda value: value in get_args(BiasKind), _set("bias")),
            Option("keep_float_weights", "AddQDQPairToWeight", _BOOL, _is_bool, _set("keep_float_weights")),
            Option("packed_weights", None, _BOOL, _is_bool, _set("packed_weights")),
            Option("force_pass_through", "ForceQuantizeNoInputCheck", _BOOL, _is_bool, _set("force_pass_through")),
            Option("equalize", None, _BOOL, _is_bool, _equalize),
            Option("portable", None, _BOOL, _is_bool, _set("portable")),
            Option("op_types", "OpTypesToQuantize", _NAMES, _is_names, _set("op_types")),
            Option("include", "NodesToQuantize", _NAMES, _is_names, _set("include")),
            Option("exclude", "NodesToExclude", _EXCLUDE, _is_list, _read("exclude", read_exclude)),
            Option("exclude_op_types", "OpTypesToExclude", _NAMES, _is_names, _set("exclude_op_types")),
            Option("layers", None, _RULES, _is_list, _read("layers", read_layers)),
            Option("tensors", "TensorQuantOverrides", _MAPPING, _is_mapping, _read("tensors", read_overrides)),
            Option("samples", "CalibDataSize", _COUNT, _is_count, _set("samples")),
            Option("batch_size", None, _COUNT, _is_count, _set("batch_size")),
            Option("preprocess", None, _NAME, _is_name, _set("preprocess")),
            Option("method", "CalibrateMethod", _METHOD, is_method, choose_method("activation")),
            Option("weight_method", "WeightCalibrateMethod", _METHOD, is_method, choose_method("weight")),
            Option("moving_average", "CalibMovingAverage", _BOOL, _is_bool, choose_moving_average),
            Option("percentile", "Percentile", _NUMBER, _is_number, choose_parameter("percentile")),
            Option("percentiles", "PercentileCandidates", _NUMBERS, _is_numbers, choose_parameter("percentiles")),
            Option("metric", "LWPMetric", _NAME, _is_name, choose_parameter("metric")),
            Option("scenario", "Scenario", _NAME, _is_name, choose_parameter("scenario")),
            Option("bins", "NumBins", _COUNT, _is_count, choose_parameter("bins")),
            Option("levels", "NumQuantizedBins", _COUNT, _is_count, choose_parameter("levels")),
            Option(
                "range_symmetric", "CalibTensorRangeSymmetric", _BOOL, _is_bool, choose("activation", "range_symmetric")
            ),
        )
    }
)
"""Name -> option. Every option may also be given by Quark's key."""

_BY_KEY = MappingProxyType(
    {key: option for option in OPTIONS.values() for key in (option.name, option.quark_key) if key is not None}
)


def apply_options(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns `scheme` changed by `options`, which are applied in the order of the table, whatever order they came in.

    Args:
        scheme: Where to start.
        options: Option names, or Quark's keys, and their values.

    Raises:
        ConfigError: If an option is unknown, given twice under two names, or has a value of the wrong kind.

    Example:
        >>> from quarkfast.config import find_preset
        >>> apply_options(find_preset("A8W8"), {"per_channel": True}).weight.granularity
        'channel'
    """
    given: dict[str, tuple[str, Any]] = {}
    for key, value in options.items():
        option = _BY_KEY.get(key)
        if option is None:
            raise ConfigError(f"option: expected a known name, got {key!r}{did_you_mean(key, _BY_KEY)}")
        if option.name in given:
            raise ConfigError(f"option: expected {option.name} once, got {given[option.name][0]!r} and {key!r}")
        if not option.accepts(value):
            raise ConfigError(f"option {key}: expected {option.expects}, got {value!r}")
        given[option.name] = (key, value)
    for name, option in OPTIONS.items():
        if name in given:
            scheme = option.apply(scheme, given[name][1])
    return scheme


def _yielding(scheme: Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns a preset without a scale for each channel where options that leave that open ask for zero points.

    ConvInteger has one zero point for all channels.
    """
    given = {_BY_KEY[key].name: value for key, value in options.items() if key in _BY_KEY}
    weight = formats.get(str(given.get("weight_type", scheme.weight.dtype)))
    symmetric = given.get("weight_symmetric", weight is None or weight.signed)
    if symmetric or scheme.encoding != "dynamic" or "per_channel" in given:
        return scheme
    return _per_channel(scheme, False)


def scheme_from(preset: str | Scheme, options: Mapping[str, Any]) -> Scheme:
    """Returns the scheme that a preset (or a scheme) and options amount to, before its target is asked.

    Raises:
        ConfigError: If the preset or an option is unknown or does not fit.
    """
    if not isinstance(preset, str | Scheme):
        raise ConfigError(f"preset: expected a name or a Scheme, got {type(preset).__name__}")
    scheme = apply_options(_yielding(find_preset(preset), options) if isinstance(preset, str) else preset, options)
    if scheme.weights_only:
        check_stored_weights(scheme)
        return scheme
    check_types(scheme)
    if any(rule.range is not None or rule.scale is not None for rule in scheme.tensors):
        return replace(scheme, equalize=False)  # Ranges that were found for the model as it is hold for it alone.
    return scheme
