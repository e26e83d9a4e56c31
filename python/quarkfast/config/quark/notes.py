"""What a user of Quark's vocabulary is told: settings that have no effect here, and refusals by Quark's names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from quarkfast.config.options import OPTIONS
from quarkfast.config.quark.algorithm import AlgoConfig, QuarotConfig
from quarkfast.config.quark.finetuning import DEVICES, finetuning_of
from quarkfast.config.quark.keys import KEYS, accepts
from quarkfast.config.quark.legacy import Config, QuantizationConfig
from quarkfast.config.quark.plain import plain_config
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.config.scheme import Scheme

__all__ = ["in_quarks_words", "notes_of", "notes_of_algorithms"]

# Fields of the older configuration -> the keys that say the same.
_FIELDS = {"execution_providers": "ExecutionProviders", "debug_mode": "DebugMode"}


def notes_of(config: Config | QConfig | QuantizationConfig, scheme: Scheme) -> tuple[str, ...]:
    """Return one sentence for each setting that is accepted without effect.

    Args:
        config: A configuration of Quark.
        scheme: What it amounts to.

    Raises:
        ConfigError: The configuration is of another kind.

    Example:
        >>> from quarkfast.config.quark import get_default_config, scheme_of
        >>> config = get_default_config("XINT8")
        >>> config.extra_options["BF16QDQToCast"] = True
        >>> notes_of(config, scheme_of(config))
        ('BF16QDQToCast: True has no effect: activations are uint8',)
    """
    plain = plain_config(config)
    options = dict(plain.extra_options)
    npu = "EnableNPUCnn" if options.get("EnableNPUCnn") is True else ""
    if isinstance(plain, QuantizationConfig):
        npu = "enable_npu_cnn" if plain.enable_npu_cnn and "EnableNPUCnn" not in options else npu
        options = {key: getattr(plain, field) for field, key in _FIELDS.items()} | options
    found = [
        _note(key, value, KEYS[key].why)
        for key, value in options.items()
        if key in KEYS and accepts(KEYS[key].noted, value) and value not in KEYS[key].default
    ]
    if npu and scheme.target != "ryzenai-xint8":
        found.append(_note(npu, True, "Quark reads it beside scales that are powers of two alone"))
    if options.get("BF16QDQToCast") is True and scheme.encoding != "cast":
        found.append(_note("BF16QDQToCast", True, f"activations are {scheme.activation.dtype}"))
    found += _devices("FastFinetune: ", options.get("FastFinetune") or {})
    return (*found, *(notes_of_algorithms(plain.algo_config) if isinstance(plain, QConfig) else ()))


def notes_of_algorithms(algorithms: Sequence[AlgoConfig] | None) -> tuple[str, ...]:
    """Return one sentence for each setting of algorithms that is accepted without effect."""
    found = _devices("FastFinetune: ", finetuning_of(list(algorithms or ())))
    for each in algorithms or ():
        if isinstance(each, QuarotConfig) and each.r_config_path:
            found.append(_note("QuarotConfig: r_config_path", each.r_config_path, KEYS["RConfigPath"].why))
    return tuple(found)


def _devices(where: str, settings: dict[str, Any]) -> list[str]:
    return [
        _note(where + key, settings[key], "the CPU does it")
        for key in DEVICES
        if str(settings.get(key, "cpu")).lower() != "cpu"
    ]


def _note(key: str, value: object, why: str) -> str:
    return f"{key}: {value!r} has no effect: {why}"


def in_quarks_words(message: str, keys: Iterable[str]) -> str:
    """Return a message with those of Quark's keys in place of the options and rules that they become.

    Example:
        >>> in_quarks_words("bf16_with_clip: expected bfloat16 activations, got uint8", ["BF16WithClip"])
        'BF16WithClip: expected bfloat16 activations, got uint8'
    """
    names = {name: key for key in keys if key in KEYS for name in _ours(key)}
    if not names:
        return message
    # A name of one word may be a word of the sentence, but not where it says what the sentence is about.
    anywhere = "|".join(sorted(name for name in names if "_" in name)) or "(?!)"
    where = "|".join(sorted(names))
    return re.sub(rf"\b(?:{anywhere})\b|^(?:{where})(?=:)", lambda found: names[found[0]], message)


def _ours(key: str) -> set[str]:
    """Returns the names of options and rules that a key becomes; its row says them in backquotes."""
    row = KEYS[key]
    named = {name for name in re.findall(r"`(\w+)`", row.why) if name in OPTIONS}
    return named | ({row.constraint} if row.constraint else set())
