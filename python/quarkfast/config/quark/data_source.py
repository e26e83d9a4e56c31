"""What Quark's options say of samples and of the ends that they enter: random data, a file of ranges, types, layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarkfast.config.quark.legacy import Config, QuantizationConfig
from quarkfast.config.quark.plain import plain_config
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.errors import ConfigError

__all__ = ["DataSource", "data_source_of"]

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
