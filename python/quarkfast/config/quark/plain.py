"""Plain data of what scripts give (NumPy's scalars and arrays, paths, wrong kinds), and sources of samples in it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from quarkfast.config.options import OPTIONS
from quarkfast.config.options.kinds import BOOL, EXCLUDE, NAMES, SETTINGS, Kind
from quarkfast.config.quark.algorithm import AlgoConfig
from quarkfast.config.quark.keys import KEYS
from quarkfast.config.quark.legacy import Config, QuantizationConfig
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.errors import ConfigError, shown

__all__ = ["DataSource", "data_source_of", "plain", "plain_algorithms", "plain_config"]

# Keys whose values are read piece by piece.
_KINDS: Mapping[str, Kind] = {
    "CopySharedInit": NAMES,
    **dict.fromkeys(("AutoMixprecision", "FastFinetune", "GPTQParams", "MatMulNBitsParams"), SETTINGS),
    **dict.fromkeys(("BFPAttributes", "MXAttributes"), SETTINGS),
}
# Annotations of fields.
_FIELDS: Mapping[str, Kind] = {"bool": BOOL, "list[str]": NAMES, "list[Any]": EXCLUDE}


def plain(value: Any) -> Any:
    """Returns a value without NumPy's types and paths, in lists, tuples and mappings too.

    Example:
        >>> import numpy as np
        >>> from pathlib import Path
        >>> plain({"a": np.float32(0.5), "b": [np.bool_(True), Path("ranges.json")]})
        {'a': 0.5, 'b': [True, 'ranges.json']}
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    # NumPy's scalars and arrays have it, and those of ml_dtypes; a class has not.
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value


def plain_config(config: Config | QConfig | QuantizationConfig) -> QConfig | QuantizationConfig:
    """Returns a copy of a configuration with plain values, without options that are None: these are left out in Quark.

    Raises:
        ConfigError: It is of another kind, or a field or option is.
    """
    if isinstance(config, Config):
        config = config.global_quant_config
    if isinstance(config, QuantizationConfig):
        return _plain_legacy(config)
    if not isinstance(config, QConfig):
        raise ConfigError(f"config: expected a Config or a QConfig, got {type(config).__name__}")
    found = copy.copy(config)
    found.extra_options = _plain_options(config.extra_options)
    found.algo_config = plain_algorithms(config.algo_config)
    return found


def plain_algorithms(algorithms: Iterable[AlgoConfig] | None) -> list[AlgoConfig]:
    """Returns copies of algorithms with plain settings.

    Raises:
        ConfigError: It is no list of algorithms, or further options are no mapping.
    """
    if not isinstance(algorithms, list | tuple | None):
        raise ConfigError(f"algorithms: expected a list of such as AdaRoundConfig(), got {shown(algorithms)}")
    found = []
    for each in algorithms or ():
        if not isinstance(each, AlgoConfig):
            raise ConfigError(f"algorithms: expected such as AdaRoundConfig(), got {shown(each)}")
        settings = copy.copy(each)
        for name, value in vars(each).items():
            setattr(settings, name, plain(value))
        settings.options = _mapping(f"{type(each).__name__}: options", settings.options)
        found.append(settings)
    return found


def _plain_legacy(config: QuantizationConfig) -> QuantizationConfig:
    found, default = copy.copy(config), QuantizationConfig()
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == "extra_options":
            value = _plain_options(value)
        elif value is None:
            value = getattr(default, field.name)
        else:
            value, kind = plain(value), _FIELDS.get(str(field.type))
            if kind is not None and not kind.accepts(value):
                raise ConfigError(f"QuantizationConfig: {field.name}: expected {kind.expects}, got {shown(value)}")
            value = list(value) if isinstance(value, tuple) else value
        setattr(found, field.name, value)
    return found


def _plain_options(options: Any) -> dict[str, Any]:
    known = {*KEYS, *OPTIONS, *(option.quark_key for option in OPTIONS.values())}
    found = _mapping("extra_options", options)
    given = {key: value for key, value in found.items() if value is not None or key not in known}
    for key, kind in _KINDS.items():
        if key in given and not kind.accepts(given[key]):
            raise ConfigError(f"option {key}: expected {kind.expects}, got {shown(given[key])}")
        if key in given and kind is SETTINGS:
            _mapping(f"option {key}", given[key])
    return given


def _mapping(where: str, value: Any) -> dict[str, Any]:
    """Returns a mapping with plain values; None is an empty one.

    Raises:
        ConfigError: It is none, or a key is no text.
    """
    found = plain({} if value is None else value)
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: expected a mapping from names to values, got {shown(value)}")
    for key in found:
        if not isinstance(key, str):
            raise ConfigError(f"{where}: expected names, got {shown(key)}")
    return found


# Keys of a model's ends -> the fields of the older configuration.
_ENDS = {"ConvertFP16ToFP32": "convert_fp16_to_fp32", "ConvertNCHWToNHWC": "convert_nchw_to_nhwc"}


@dataclass(frozen=True, slots=True)
class DataSource:
    """What stands for samples that nobody gives.

    Attributes:
        random: Whether one random sample does, where there is neither a reader nor a path.
        shapes: Sizes of that sample by input, where the model leaves them open.
        ranges: Least and largest number of that sample by input.
        saved: A file of statistics: read in place of samples where it exists, else written.
        float32: Whether inputs and outputs in float16 become float32 first.
        channels_last: Whether the result takes and gives images as NHWC.
    """

    random: bool = False
    shapes: Mapping[str, tuple[int, ...]] | None = None
    ranges: Mapping[str, tuple[float, float]] | None = None
    saved: str | None = None
    float32: bool = False
    channels_last: bool = False


def data_source_of(config: Config | QConfig | QuantizationConfig) -> DataSource:
    """Return what a configuration of Quark says of calibration data.

    Raises:
        ConfigError: A value is of the wrong kind.

    Example:
        >>> from quarkfast.config.quark.legacy import get_default_config
        >>> data_source_of(get_default_config("VINT8")).random
        True
    """
    plain = plain_config(config)
    options = plain.extra_options
    shapes = _by_name(options.get("RandomDataReaderInputShape") or {}, "RandomDataReaderInputShape")
    ranges = _by_name(options.get("RandomDataReaderInputDataRange") or {}, "RandomDataReaderInputDataRange")
    if any(len(ends) != 2 for ends in ranges.values()):
        raise ConfigError(f"option RandomDataReaderInputDataRange: expected [low, high] by input, got {ranges!r}")
    saved = options.get("SaveAndRestore")
    if saved is not None and not isinstance(saved, str):
        raise ConfigError(f"option SaveAndRestore: expected the path of a file, got {saved!r}")
    fields = plain if isinstance(plain, QuantizationConfig) else None
    float32, last = (
        options.get(key, fields is not None and getattr(fields, field)) is True for key, field in _ENDS.items()
    )
    return DataSource(options.get("UseRandomData") is True, shapes, ranges, saved or None, float32, last)


def _by_name(value: Any, key: str) -> dict[str, Any]:
    """Reads lists of numbers by the name of an input.

    Raises:
        ConfigError: If it is something else.
    """
    good = isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(numbers, list | tuple) and all(map(_is_number, numbers))
        for name, numbers in value.items()
    )
    if not good:
        raise ConfigError(f"option {key}: expected lists of numbers by the name of an input, got {value!r}")
    return {name: tuple(numbers) for name, numbers in value.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
