"""Quark's settings of automatic mixed precision: which become settings of ours, and which change nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import AlgoConfig, AutoMixprecisionConfig
from quarkfast.config.quark.blocks import block_of
from quarkfast.config.quark.layer_rules import layer_rule
from quarkfast.config.quark.spec import QLayerConfig
from quarkfast.config.rules import BiasKind, Change, LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean
from quarkfast.formats import find_by_quant_type

__all__ = ["MIXING_KEYS", "MixingKey", "mixed", "mixing_of"]

_METRICS = ("l2", "kl", "cosine", "sqnr", "psnr")
_RATIOS = ("sqnr", "psnr")
_BLOCK_ATTRIBUTES = {"QBFP": "BFPAttributes", "QMX": "MXAttributes"}


@dataclass(frozen=True, slots=True)
class MixingKey:
    """One of Quark's settings.

    Attributes:
        check: Whether a value can be honoured.
        expected: What to give instead of one that cannot, for messages.
        option: The field of `MixedPrecision` that it becomes as it is; None where it is read otherwise, or where
            quarkfast does so anyway, or where the value only concerns how Quark itself runs.
    """

    check: Callable[[Any], bool]
    expected: str
    option: str | None = None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _threshold(value: Any) -> bool:
    return value is None or _number(value)


def _names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _type(value: Any) -> bool:
    return find_by_quant_type(getattr(value, "name", "")) is not None


def _layers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(key, QLayerConfig) and _names(names) for key, names in value.items())
    found = value if isinstance(value, list | tuple) else [value]
    return bool(found) and all(isinstance(each, QLayerConfig) for each in found)


def _only(*values: Any) -> MixingKey:
    """Returns the row of a setting of which only these values can be honoured, without doing anything for it."""
    return MixingKey(lambda value: any(type(each) is type(value) and each == value for each in values), repr(values[0]))


_TYPE = MixingKey(_type, "a member of QuantType or ExtendedQuantType")
_INDEX = MixingKey(_whole, "the index of an output", "output")
MIXING_KEYS: Mapping[str, MixingKey] = MappingProxyType(
    {
        "TargetLayerConfig": MixingKey(_layers, "a QLayerConfig, a list of them, or a mapping from them to names"),
        "TargetOpType": MixingKey(lambda value: _names(value) and bool(value), "operator types", "op_types"),
        "IncludeLayers": MixingKey(lambda value: value is None or _names(value), "a list of names", "include"),
        "ExcludeLayers": MixingKey(lambda value: value is None or _names(value), "a list of names", "exclude"),
        "DataSize": MixingKey(_whole, "a count, or 0 for all"),
        "MetricOutputIndex": _INDEX,
        "MetricDefault": MixingKey(lambda value: value in _METRICS, ", ".join(_METRICS), "metric"),
        "MetricThreshold": MixingKey(_threshold, "a number, 0 for no threshold, or None to rank layers only"),
        "MetricOptimizeObject": MixingKey(lambda value: value in ("speed", "quality"), "speed or quality", "objective"),
        "NoInputQDQShared": MixingKey(lambda value: isinstance(value, bool), "True or False", "own_inputs"),
        # Layers are tried one after the other; each try has all processors.
        "WorkerNum": MixingKey(lambda value: _whole(value) and value > 0, "a count"),
        # A tensor has one type and one scale for all that read it, and what only moves data follows it.
        "DualQuantNodes": _only(False),
        "SharedParamMode": _only("propagate"),
        # Functions and files have no place in a scheme, which is plain data; a cache would outlive its model.
        "MetricDistanceFn": _only(None),
        "MetricEvaluateFn": _only(None),
        "SensitivityCacheFile": _only(None),
        "SubgraphJson": _only(None),
        # Names of earlier versions of Quark.
        "TargetQuantType": _TYPE,
        "ActTargetQuantType": _TYPE,
        "WeightTargetQuantType": _TYPE,
        "BiasTargetQuantType": _TYPE,
        "OutputIndex": _INDEX,
        "L2Target": MixingKey(_threshold, "a number"),
        "Top1AccTarget": _only(None),
        "EvaluateFunction": _only(None),
        "TargetTensors": _only([], None),
        "TargetIndices": _only([], None),
        "ExcludeIndices": _only([], None),
        "AutoMixUseFastFT": _only(False),
    }
)
"""Key of the older configuration's ``AutoMixprecision`` -> what becomes of it; the class has it in small letters."""

_FIELDS = {re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=QDQ)(?=S)", "_", key).lower(): key for key in MIXING_KEYS}


def mixing_of(algorithms: Sequence[AlgoConfig] | None) -> dict[str, Any]:
    """Returns the ``AutoMixprecision`` that an AutoMixprecisionConfig amounts to; empty without one.

    Raises:
        ConfigError: There is more than one.

    Example:
        >>> mixing_of([AutoMixprecisionConfig(metric_default="sqnr")])["MetricDefault"], mixing_of([])
        ('sqnr', {})
    """
    found = [config for config in algorithms or () if isinstance(config, AutoMixprecisionConfig)]
    if len(found) > 1:
        raise ConfigError(f"algorithms: expected one AutoMixprecision, got {len(found)}")
    for config in found:
        given = {_FIELDS[key]: value for key, value in vars(config).items() if key not in ("name", "options")}
        return {key: value for key, value in given.items() if key != "TargetLayerConfig" or value is not None} | {
            **config.options
        }
    return {}


def mixed(scheme: Scheme, mixing: Mapping[str, Any], options: Mapping[str, Any]) -> Scheme:
    """Returns the scheme with mixed precision as ``AutoMixprecision`` asks for it.

    Args:
        scheme: Whose types layers leave.
        mixing: Settings by Quark's keys.
        options: Quark's extra options, of which attributes of block formats count.

    Raises:
        UnsupportedError: A setting cannot be honoured.
        ConfigError: A key is unknown, or no type to change to is given.
    """
    for key, value in mixing.items():
        row = MIXING_KEYS.get(key)
        if row is None:
            raise ConfigError(f"AutoMixprecision: expected a known key, got {key!r}{did_you_mean(key, MIXING_KEYS)}")
        if not row.check(value):
            raise UnsupportedError(f"AutoMixprecision: {key}: expected {row.expected} in this version, got {value!r}")
    _check_pairs(mixing)
    given: dict[str, Any] = {"metric": "l2", "output": 0}
    for key, value in mixing.items():
        option = MIXING_KEYS[key].option
        if option is not None:
            given[option] = tuple(value or ()) if option in ("op_types", "include", "exclude") else value
    given["samples"] = mixing.get("DataSize", 1000) or None
    given |= _limit(mixing, given["metric"])
    forms = _forms(mixing, scheme, options)
    return apply_options(scheme, {"mixed_precision": MixedPrecision(forms, **given)})


def _check_pairs(mixing: Mapping[str, Any]) -> None:
    """Makes sure that no setting is overruled by another one.

    Raises:
        ConfigError: If one is.
    """
    for first, second in (("MetricThreshold", "L2Target"), ("MetricOutputIndex", "OutputIndex")):
        if {first, second} <= mixing.keys() and mixing[first] != mixing[second]:
            got = f"{mixing[first]!r} and {mixing[second]!r}"
            raise ConfigError(f"AutoMixprecision: expected {first} or {second}, got both: {got}")
    types = [f"{part}TargetQuantType" for part in ("", "Act", "Weight", "Bias")]
    for key in types if mixing.get("TargetLayerConfig") is not None else ():
        if key in mixing:
            raise ConfigError(f"AutoMixprecision: {key}: expected it or TargetLayerConfig, got both; leave one out")
    both, *parts = (mixing.get(key) for key in types[:3])
    if both is not None and None not in parts and both not in parts:
        raise ConfigError(
            f"AutoMixprecision: TargetQuantType: expected a type that either part lacks, got {both.name} beside both"
        )


def _limit(mixing: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Returns the threshold in our sign; 0 means none, and None that layers are only ranked. Quark negates ratios."""
    value = mixing.get("MetricThreshold", mixing.get("L2Target") or 0)
    if value is None:
        return {"rank_only": True}
    return {"threshold": (-value if metric in _RATIOS else value) if value else None}


def _forms(mixing: Mapping[str, Any], scheme: Scheme, options: Mapping[str, Any]) -> tuple[LayerRule, ...]:
    layers = mixing.get("TargetLayerConfig")
    if isinstance(layers, Mapping):
        return tuple(replace(layer_rule(layer), nodes=tuple(names)) for layer, names in layers.items())
    if layers is not None:
        return tuple(layer_rule(layer) for layer in (layers if isinstance(layers, list | tuple) else [layers]))
    both = mixing.get("TargetQuantType")
    activation, weight = (mixing.get(f"{part}TargetQuantType", both) for part in ("Act", "Weight"))
    if activation is None and weight is None:
        raise ConfigError("AutoMixprecision: expected TargetLayerConfig or ActTargetQuantType, got neither")
    bias = mixing.get("BiasTargetQuantType")
    return (
        LayerRule(
            activation=_change(activation, scheme.activation, options),
            weight=_change(weight, scheme.weight, options),
            bias=None if bias is None else _bias(bias, weight),
        ),
    )


def _change(member: Any, spec: TensorSpec, options: Mapping[str, Any]) -> Change | None:
    """Returns the change to another type, with zero points where the tensors of the preset have them."""
    if member is None:
        return None
    row = find_by_quant_type(member.name)
    assert row is not None
    name = block_of(_BLOCK_ATTRIBUTES[member.name], options) if row.is_block else row.name
    symmetric = {"symmetric": spec.symmetric} if row.is_integer and spec.format.is_integer else {}
    return Change.of({"dtype": name, **symmetric}, "AutoMixprecision")


def _bias(member: Any, weight: Any) -> BiasKind:
    if member.name == "QInt32":
        return "int32"
    if member == weight:
        return "weight"
    expected = "QInt32" if weight is None else f"QInt32 or {weight.name}"
    raise UnsupportedError(
        f"AutoMixprecision: BiasTargetQuantType: expected {expected} in this version, got {member.name}"
    )
