"""Which names a list of names, globs and regular expressions stands for."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["match_names"]


def match_names(patterns: Sequence[str], names: Iterable[str], where: str) -> frozenset[str]:
    """Returns the names that any of `patterns` stands for.

    A pattern is a name; or, if no name is spelled like it, a regular expression for the whole name when it begins with
    ``^`` (as in Quark), or a glob with ``*`` and ``?``.

    Args:
        patterns: Names and patterns.
        names: The names to choose from.
        where: Option's name for messages.

    Raises:
        ConfigError: If a pattern matches nothing or is no regular expression.

    Example:
        >>> sorted(match_names(["conv*", "^relu_[12]$"], ["conv1", "relu_1", "relu_3"], "exclude"))
        ['conv1', 'relu_1']
    """
    known = dict.fromkeys(names)
    found: set[str] = set()
    for pattern in patterns:
        matched = {pattern} if pattern in known else {name for name in known if _matches(pattern, name, where)}
        if not matched:
            raise ConfigError(f"{where}: expected the name of a node, got {pattern!r}{did_you_mean(pattern, known)}")
        found |= matched
    return frozenset(found)


def _matches(pattern: str, name: str, where: str) -> bool:
    if not pattern.startswith("^"):
        # Names of exporters hold brackets, which are no character classes here.
        return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as error:
        raise ConfigError(f"{where}: expected a regular expression, got {pattern!r} ({error})") from error
