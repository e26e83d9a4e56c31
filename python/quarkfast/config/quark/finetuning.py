"""Quark's settings of AdaRound and AdaQuant: which become settings of weight rounding, and which change nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from quarkfast.config.quark.algorithm import AlgoConfig, FinetuningConfig
from quarkfast.config.scheme import Scheme, WeightRounding
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["DEVICES", "FINETUNING_KEYS", "FinetuningKey", "finetuned", "finetuning_of"]

_NAMES = {"adaround": "AdaRound", "adaquant": "AdaQuant", "descent": "descent"}
_ROUNDINGS: Mapping[str, WeightRounding] = {"adaround": "adaround", "adaquant": "adaquant", "descent": "descent"}
_STEPS = ("adaround", "adaquant")

DEVICES = ("OptimDevice", "InferDevice")
"""Keys of processors of another kind."""

_ROUND = ("adaround",)


@dataclass(frozen=True, slots=True)
class FinetuningKey:
    """One of Quark's settings.

    Attributes:
        check: Whether a value can be honoured.
        expected: What to give instead of one that cannot, for messages.
        option: The setting of weight rounding that it becomes; None where quarkfast does so anyway, or where the value
            only concerns how Quark itself runs.
        algorithms: Those that have it.
        unread: What Quark has by default, which asks for nothing beside the other algorithms.
    """

    check: Callable[[Any], bool]
    expected: str
    option: str | None = None
    algorithms: tuple[str, ...] = tuple(_NAMES)
    unread: tuple[Any, ...] = ()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: Any) -> bool:
    return _number(value) and value >= 1 and value == int(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _part(value: Any) -> bool:
    return _number(value) and 0 <= value < 1


def _pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(_number(each) and each >= 1 for each in value)


def _names(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, str) for each in value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _device(value: Any) -> bool:
    return isinstance(value, str)


def _is_among(value: Any, values: tuple[Any, ...]) -> bool:
    """Whether a value is one of some; True is not 1, and 1 is 1.0."""
    flags = isinstance(value, bool)
    return any(each == value and isinstance(each, bool) is flags for each in values)


def _only(*values: Any) -> FinetuningKey:
    """Returns the row of a setting of which only these values can be honoured, without doing anything for it."""
    return FinetuningKey(lambda value: _is_among(value, values), repr(values[0]))


FINETUNING_KEYS: Mapping[str, FinetuningKey] = MappingProxyType(
    {
        "OptimAlgorithm": FinetuningKey(lambda value: str(value).lower() in _NAMES, "adaround, adaquant or descent"),
        "DataSize": FinetuningKey(_count, "a count", "samples"),
        "UpdateBias": FinetuningKey(_flag, "True or False", "update_bias"),
        "TargetOpType": FinetuningKey(_names, "a list of operator types", "op_types"),
        # Steps of gradient descent; coordinate descent, which runs in their place, ends by itself.
        "NumIterations": FinetuningKey(_count, "a count", None, _STEPS, (1000, 3000)),
        "LearningRate": FinetuningKey(_positive, "a number above 0", None, _STEPS, (0.1, 1e-5)),
        "EarlyStop": FinetuningKey(_flag, "True or False", None, _STEPS, (True, False)),
        "RegParam": FinetuningKey(_positive, "a number above 0", None, _ROUND, (0.01,)),
        "BetaRange": FinetuningKey(_pair, "two numbers of at least 1", None, _ROUND, ((20, 2), [20, 2])),
        "WarmStart": FinetuningKey(_part, "a number from 0 to below 1", None, _ROUND, (0.2,)),
        # The form holds all samples at once, and nothing is drawn at random.
        "BatchSize": FinetuningKey(_count, "a count"),
        "NumBatches": FinetuningKey(_count, "a count"),
        "DynamicBatch": FinetuningKey(_flag, "True or False"),
        "FixedSeed": FinetuningKey(_whole, "a whole number"),
        # New codes that make the model no better are always undone.
        "SelectiveUpdate": FinetuningKey(_flag, "True or False"),
        "LogPeriod": FinetuningKey(_count, "a count"),
        # How Quark runs PyTorch, which nobody needs here.
        "MemOptLevel": _only(1, 0, 2),
        "NumWorkers": FinetuningKey(_whole, "a whole number"),
        "PinMemory": FinetuningKey(_flag, "True or False"),
        # `quarkfast.config.quark.notes` says of other devices that the CPU does it.
        **dict.fromkeys(DEVICES, FinetuningKey(_device, "the name of a device")),
        # Other teachers and other losses do not exist here.
        "LRAdjust": _only(None, (), []),
        "OutputIndex": _only(0),
        "OutputQDQ": _only(False),
        "DropRatio": _only(1.0),
        "CacheDir": _only(None),
        "RefModelPath": _only(None),
        "Parallel": _only(False),
        "SelectMaxMemLayer": _only(False),
        "UseGDS": _only(False),
    }
)
"""Key of the older configuration's ``FastFinetune`` -> what becomes of it; classes have it in small letters."""

_FIELDS = {
    re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=LR)(?=A)|(?<=[a-z])(?=GDS)", "_", key).lower(): key for key in FINETUNING_KEYS
}


def finetuning_of(algorithms: list[AlgoConfig] | None) -> dict[str, Any]:
    """Returns the ``FastFinetune`` that an AdaRoundConfig or AdaQuantConfig amounts to; empty without one.

    Raises:
        ConfigError: There is more than one.

    Example:
        >>> from quarkfast.config.quark.algorithm import AdaQuantConfig
        >>> finetuning_of([AdaQuantConfig(num_iterations=9)])["NumIterations"], finetuning_of([])
        (9, {})
    """
    found = [config for config in algorithms or () if isinstance(config, FinetuningConfig)]
    if len(found) > 1:
        names = " and ".join(config.name for config in found)
        raise ConfigError(f"algorithms: expected one of AdaRound and AdaQuant, got {names}")
    for config in found:
        given = {key: value for key, value in vars(config).items() if key not in ("name", "options")}
        known = {_FIELDS[key]: value for key, value in given.items() if value is not None}
        return {"OptimAlgorithm": config.name.lower(), **known, **config.options}
    return {}


def finetuned(scheme: Scheme, finetune: Mapping[str, Any]) -> Scheme:
    """Returns the scheme with weights rounded as ``FastFinetune`` asks for; AdaRound without an algorithm.

    Raises:
        UnsupportedError: A setting cannot be honoured, or activations are not quantized beforehand.
        ConfigError: A key is unknown.
    """
    _check(finetune)
    algorithm = str(finetune.get("OptimAlgorithm", "adaround")).lower()
    unread = [key for key in finetune if algorithm not in FINETUNING_KEYS[key].algorithms]
    for key in unread:
        value = finetune[key]
        if not _is_among(value, FINETUNING_KEYS[key].unread):
            raise UnsupportedError(f"FastFinetune: {key}: expected it left out with {_NAMES[algorithm]}, got {value!r}")
    if scheme.encoding == "dynamic" or scheme.weights_only:
        raise UnsupportedError(
            f"algorithms: expected activations that are quantized beforehand for {_NAMES[algorithm]}, "
            f"got {scheme.activation.dtype} and {scheme.weight.dtype}; leave {_NAMES[algorithm]} out"
        )
    read = {key: value for key, value in finetune.items() if key not in unread}
    return replace(scheme, rounding=_ROUNDINGS[algorithm], rounding_options=_options(read))


def _check(finetune: Mapping[str, Any]) -> None:
    for key, value in finetune.items():
        row = FINETUNING_KEYS.get(key)
        if row is None:
            raise ConfigError(f"FastFinetune: expected a known key, got {key!r}{did_you_mean(key, FINETUNING_KEYS)}")
        if not row.check(value):
            raise UnsupportedError(f"FastFinetune: {key}: expected {row.expected} in this version, got {value!r}")


def _options(finetune: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    found = {}
    for key, value in finetune.items():
        row = FINETUNING_KEYS[key]
        if row.option is not None:
            plain = int(value) if row.check is _count else value
            found[row.option] = tuple(plain) if isinstance(plain, list) else plain
    return tuple(sorted(found.items()))
