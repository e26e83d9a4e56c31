"""Kinds of options: how values are checked, called in messages, and read on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from quarkfast.config.method_options import is_method
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.config.policy import Policy
from quarkfast.config.rules import BiasKind
from quarkfast.config.scheme import Rotation, Shares, WeightRounding

__all__ = [
    "BIAS",
    "BOOL",
    "COUNT",
    "EXCLUDE",
    "GROUP",
    "MAPPING",
    "METHOD",
    "MIXED",
    "NAME",
    "NAMES",
    "NUMBER",
    "NUMBERS",
    "PAIRS",
    "POLICY",
    "PREPROCESS",
    "ROTATION",
    "ROUNDING",
    "RULES",
    "SETTINGS",
    "SHAPES",
    "SHARES",
    "SWITCHES",
    "TARGET",
    "Kind",
]

_GROUP_SIZES = (16, 32, 64, 128, 256)


class Kind(NamedTuple):
    """One kind of values.

    Attributes:
        expects: The accepted values in words, for messages and pages.
        accepts: Whether a value is one of them.
        word: The type of a value on the command line: bool, int, float or str.
        many: Whether a value is a list; its option is repeatable on the command line.
        is_json: Whether the command line takes the value as JSON.
    """

    expects: str
    accepts: Callable[[Any], bool]
    word: type
    many: bool = False
    is_json: bool = False


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_list(value) and all(map(accepts, value))


BOOL = Kind("True or False", _is_bool, bool)
COUNT = Kind("an integer greater than 0", _is_count, int)
GROUP = Kind("16, 32, 64, 128 or 256", lambda value: _is_count(value) and value in _GROUP_SIZES, int)
NUMBER = Kind("a number", _is_number, float)
NUMBERS = Kind("a list of numbers", _list_of(_is_number), float, many=True)
NAME = Kind("a string", _is_name, str)
PREPROCESS = Kind("the name of a recipe, or settings", lambda value: isinstance(value, str | Mapping), str)
NAMES = Kind("a list of strings", _list_of(_is_name), str, many=True)
BIAS = Kind("int32, int16, weight or float", lambda value: value in get_args(BiasKind), str)
SHARES = Kind("pair, codes or nothing", lambda value: value in get_args(Shares), str)
ROUNDING = Kind("nearest, descent, adaround, adaquant or gptq", lambda value: value in get_args(WeightRounding), str)
ROTATION = Kind("none, hadamard or random", lambda value: value in get_args(Rotation), str)
METHOD = Kind("the name of a method", is_method, str)
TARGET = Kind("the name of a target or a Target", _is_name, str)
EXCLUDE = Kind("a list of strings and of pairs of lists of strings", _is_list, str, many=True)
RULES = Kind("a list of mappings", _is_list, str, is_json=True)
MAPPING = Kind(
    "a mapping from names of tensors to mappings", lambda value: isinstance(value, Mapping), str, is_json=True
)
SETTINGS = Kind("a mapping from names to values", lambda value: isinstance(value, Mapping), str, is_json=True)
PAIRS = Kind(
    "a list of pairs of strings",
    _list_of(lambda value: _is_list(value) and len(value) == 2 and all(map(_is_name, value))),
    str,
    is_json=True,
)
SWITCHES = Kind(
    "a mapping from names to True or False",
    lambda value: isinstance(value, Mapping) and all(map(_is_name, value)) and all(map(_is_bool, value.values())),
    str,
    is_json=True,
)
SHAPES = Kind(
    "a mapping from names to lists of sizes, or Quark's text for it",
    lambda value: isinstance(value, str | Mapping),
    str,
    is_json=True,
)
POLICY = Kind(
    "a Policy or a mapping from names of thresholds to values",
    lambda value: isinstance(value, Mapping | Policy),
    str,
    is_json=True,
)
MIXED = Kind(
    "a mapping of settings of mixed precision",
    lambda value: isinstance(value, Mapping | MixedPrecision),
    str,
    is_json=True,
)
