"""Configurations in files (JSON, or YAML where PyYAML is installed), and the names that their patterns stand for."""

from __future__ import annotations

import fnmatch
import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quarkfast.config.options import scheme_from
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, DependencyError, did_you_mean

__all__ = ["load_config", "match_names"]


def load_config(path: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Scheme:
    """Returns the scheme that a file describes.

    Args:
        path: A ``.json``, ``.yaml`` or ``.yml`` file that holds either what :meth:`Scheme.to_dict` gives (every
            quantized model has it in its metadata, under ``quarkfast.scheme``), or the name of a preset under
            ``preset`` and options by name.
        options: Options that win over those of the file.

    Raises:
        ConfigError: If the file cannot be read, or holds something else.
        DependencyError: If it is YAML and PyYAML is not installed.

    Example:
        >>> import json, pathlib
        >>> _ = pathlib.Path("int8.json").write_text(json.dumps({"preset": "A8W8", "per_channel": True}))
        >>> load_config("int8.json").weight.granularity
        'channel'
    """
    plain = _read(Path(path))
    if not isinstance(plain, Mapping) or not all(isinstance(key, str) for key in plain):
        raise ConfigError(f"{path}: expected a mapping of options, got {type(plain).__name__}")
    given = dict(plain)
    if "activation" in given:
        return scheme_from(Scheme.from_dict(given), options or {})
    preset = given.pop("preset", None)
    if not isinstance(preset, str):
        raise ConfigError(f"{path}: expected the name of a preset under 'preset', got {preset!r}")
    return scheme_from(preset, {**given, **(options or {})})


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable configuration, got {error}") from error
    if path.suffix.lower() in (".yaml", ".yml"):
        return _parse_yaml(path, text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected JSON, got {error}") from error


def _parse_yaml(path: Path, text: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise DependencyError(f"{path}: expected PyYAML, got none; install pyyaml, or write JSON") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected YAML, got {' '.join(str(error).split())}") from error


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
