"""Quark's attributes of block formats, as rows of `quarkfast.formats.block`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.formats.block import BLOCK_FORMATS, BlockFormat, Rounding

__all__ = ["block_of", "block_rounding", "block_with", "check_attributes"]

_ROUNDINGS: Mapping[int, Rounding] = MappingProxyType({0: "half_away", 1: "half_up", 2: "half_even"})
_KEYS = MappingProxyType({"BFPQuantizeDequantize": "BFPAttributes", "MXQuantizeDequantize": "MXAttributes"})

# Quark's defaults, section 5 of its specification: BFP16 and MXINT8.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "BFPAttributes": {**BLOCK_FORMATS["bfp16"].attributes, "use_compiler_version_cpu_kernel": 0},
        "MXAttributes": BLOCK_FORMATS["mxint8"].attributes,
    }
)


def block_of(key: str, options: Mapping[str, Any]) -> str:
    """Returns the name of the format that ``options[key]`` describes; without it, Quark's default.

    Args:
        key: ``"BFPAttributes"`` or ``"MXAttributes"``.
        options: Options by Quark's keys.

    Raises:
        UnsupportedError: The attributes are no format that has a row, or the axis is another than 1.

    Example:
        >>> block_of("MXAttributes", {"MXAttributes": {"element_dtype": "fp4_e2m1", "block_size": 32}})
        'mxfp4_e2m1'
    """
    return _find(key, options, _DEFAULTS[key])


def block_with(name: str, options: Mapping[str, Any]) -> str:
    """Returns the format that a block format is with the attributes that `options` have for its operator.

    Raises:
        UnsupportedError: The attributes are no format that has a row, or the axis is another than 1.

    Example:
        >>> block_with("mx4", {"BFPAttributes": {"bit_width": 13}}), block_with("mx4", {"MXAttributes": {}})
        ('mx6', 'mx4')
    """
    row = BLOCK_FORMATS[name]
    key = _KEYS[row.operator]
    return _find(key, options, {**_DEFAULTS[key], **row.attributes}) if options.get(key) else name


def _find(key: str, options: Mapping[str, Any], otherwise: Mapping[str, Any]) -> str:
    given = {name: value for name, value in (options.get(key) or {}).items() if name != "rounding_mode"}
    wanted = {"axis": 1, **otherwise, **given}
    kinds = {name: type(value) for name, value in {"axis": 1, **_DEFAULTS[key]}.items()}
    alike = all(kinds.get(name) is type(value) for name, value in given.items())
    for row in BLOCK_FORMATS.values():
        if alike and _KEYS[row.operator] == key and {"axis": 1, **_DEFAULTS[key], **_decisive(row, wanted)} == wanted:
            return row.name
    known = ", ".join(row.name for row in BLOCK_FORMATS.values() if _KEYS[row.operator] == key)
    raise UnsupportedError(f"option {key}: expected the attributes of {known}, got {given!r}")


def check_attributes(dtypes: Iterable[str], options: Mapping[str, Any]) -> None:
    """Make sure that attributes of block formats are for one that is there.

    Raises:
        ConfigError: None is.
    """
    names = list(dict.fromkeys(dtypes))
    read = {_KEYS[BLOCK_FORMATS[name].operator] for name in names if name in BLOCK_FORMATS}
    for key in _KEYS.values():
        if options.get(key) and key not in read:
            raise ConfigError(
                f"option {key}: expected a configuration with such a block format, got {', '.join(names)}; leave it out"
            )


def block_rounding(dtypes: tuple[str, str], options: Mapping[str, Any], otherwise: Rounding) -> Rounding:
    """Returns what the attributes of the first block format among `dtypes` say about rounding.

    Args:
        dtypes: Types of activations and weights.
        options: Options by Quark's keys.
        otherwise: What holds for a block format without attributes.

    Raises:
        UnsupportedError: There is no such rounding.
    """
    for dtype in dtypes:
        if dtype in BLOCK_FORMATS:
            attributes = options.get(_KEYS[BLOCK_FORMATS[dtype].operator])
            if attributes is None:
                return otherwise
            mode = attributes.get("rounding_mode", 0)
            if type(mode) is not int or mode not in _ROUNDINGS:
                raise UnsupportedError(f"rounding_mode: expected 0, 1 or 2, got {mode!r}")
            return _ROUNDINGS[mode]
    return "half_even"


def _decisive(row: BlockFormat, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of `row`; those of sub-blocks as in `wanted` where it has none."""
    ignored = [] if row.family == "bfp_prime" else ["sub_block_size", "sub_block_shift_bits"]
    return {**row.attributes, **{name: wanted[name] for name in ignored if name in wanted}}
