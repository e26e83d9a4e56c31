"""The row of one of Quark's option keys: which values do something, and why others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from quarkfast.config.options.kinds import Kind
from quarkfast.config.scheme import Scheme

__all__ = ["BOTH", "NONE", "Family", "Holds", "Key", "Values", "accepts", "family_of", "holds", "words_of"]

Family = Literal["cnn", "transformer", "dynamic", "block", "float", "integer"]
"""What Quark's defaults depend on: `enable_npu_cnn`, `enable_npu_transformer`, and the types of activations."""

Holds = Literal["honoured", "so anyway", "noted", "refused"]
"""What holds for the values of a key that ask for something."""

Values: TypeAlias = tuple[Any, ...] | Kind
"""Values one by one, or all of a kind."""

NONE: Mapping[Family, Values] = MappingProxyType({})
BOTH = (True, False)


class Key(NamedTuple):
    """One of Quark's keys.

    For each value one of four holds: something is done for it (`honoured`), it describes what is done anyway
    (`default`, `already`), nothing is done and a warning says so (`noted`), or it is refused.

    Attributes:
        name: The key.
        why: What is done, or why values are noted or refused: a clause for messages and pages.
        default: Quark's default and its equals, which ask for nothing: as if the key were left out.
        already: Values that describe what is done whatever the key says.
        families: What is accepted in place of `default` and `already` for some models of configuration.
        honoured: The values that change the result, in words; a module of `quarkfast.config.quark` or an option reads
            them, and refuses others.
        noted: Values that are accepted without effect.
        constraint: The rule of the target that other values turn on or off (`quarkfast.targets.switches`).
        dead: Whether the key has no effect in Quark itself.
    """

    name: str
    why: str = ""
    default: tuple[Any, ...] = ()
    already: Values = ()
    families: Mapping[Family, Values] = NONE
    honoured: str = ""
    noted: Values = ()
    constraint: str = ""
    dead: bool = False

    def accepted(self, family: Family) -> tuple[Values, ...]:
        """Returns the values that ask for nothing in a family: all of the entries together."""
        return (self.families[family],) if family in self.families else (self.default, self.already)


def holds(row: Key) -> Holds:
    """Returns what holds for a key: something is done for a value, all are so anyway, or others are noted or refused.

    Example:
        >>> holds(Key("PrintSummary", already=BOTH)), holds(Key("TmpDir", default=(None,)))
        ('so anyway', 'refused')
    """
    if row.honoured:
        return "honoured"
    values = [row.already, *row.families.values()]
    if all(isinstance(each, Kind) or set(BOTH) <= set(each) for each in values):
        return "so anyway"
    return "noted" if row.noted != () else "refused"


def accepts(values: Values, value: Any) -> bool:
    """Whether `value` is among `values`; True is not 1."""
    if isinstance(values, Kind):
        return values.accepts(value)
    return any(type(each) is type(value) and each == value for each in values) or (
        isinstance(value, tuple) and list(value) in values
    )


def words_of(values: Values) -> str:
    """Returns values in words.

    Example:
        >>> words_of((True, None))
        'True or None'
    """
    return values.expects if isinstance(values, Kind) else " or ".join(map(repr, values))


def family_of(scheme: Scheme) -> Family:
    """Returns what Quark's defaults depend on.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> family_of(PRESETS["XINT8"]), family_of(PRESETS["BF16"])
        ('cnn', 'float')
    """
    if scheme.target in _BY_TARGET:
        return _BY_TARGET[scheme.target]
    if scheme.encoding == "dynamic":
        return "dynamic"
    if scheme.activation.is_block or scheme.weight.is_block:
        return "block"
    return "integer" if scheme.activation.format.is_integer else "float"


_BY_TARGET: Mapping[str, Family] = {"ryzenai-xint8": "cnn", "ryzenai-transformer": "transformer"}
