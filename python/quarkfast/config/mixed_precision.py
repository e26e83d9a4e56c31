"""Mixed precision: layers that get other types than the rest of a model, chosen by what that does to the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from quarkfast.config.rules import LayerRule, read_layers
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["MixedPrecision", "Objective", "OutputMetric", "ShareOf", "read_mixed_precision"]

Objective = Literal["speed", "quality"]
OutputMetric = Literal["sqnr", "psnr", "l2", "kl", "cosine"]
ShareOf = Literal["layers", "bytes", "operations"]

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """Which layers may get other types, and how far that may go.

    Attributes:
        forms: What a layer may get instead; of several for one layer, the one that leaves the outputs closest. One
            without ``nodes`` and ``op_types`` is for every layer that no other form selects.
        op_types: Operator types of the layers to choose from.
        include: Names, globs or regular expressions of the only layers to choose from; empty means all.
        exclude: The same of layers that keep the types of the preset.
        objective: ``"speed"`` changes the layers that matter least, as many as `threshold` allows; ``"quality"``
            changes those that bring most, as few as reach `threshold`.
        metric: What is measured of the outputs: ratios of signal to noise in dB (``"sqnr"``, ``"psnr"``), or distances
            (``"l2"``, ``"kl"``, ``"cosine"``).
        threshold: The least ratio, or the greatest distance; None changes all that `share` allows.
        output: Index of the output that is looked at; None takes the worst.
        share: At most this part of the layers changes, above 0 and at most 1.
        share_of: What the part is counted in: layers, bytes of their weights, or multiplications for one sample.
        samples: How many samples rank the layers; None means all that calibrate.
        own_inputs: Leave layers alone whose first input others read too.
        rank_only: Measure every layer by itself, and change none.

    Example:
        >>> MixedPrecision(read_layers([{"op_types": ["Conv"], "weight": {"dtype": "int4"}}])).searches
        False
    """

    forms: tuple[LayerRule, ...]
    op_types: tuple[str, ...] = _LAYERS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    objective: Objective = "speed"
    metric: OutputMetric = "sqnr"
    threshold: float | None = None
    output: int | None = None
    share: float = 1.0
    share_of: ShareOf = "layers"
    samples: int | None = 8
    own_inputs: bool = False
    rank_only: bool = False

    @property
    def searches(self) -> bool:
        """Whether outputs decide, so that there must be samples."""
        several = sum(not form.nodes and not form.op_types for form in self.forms) > 1
        return self.threshold is not None or self.share < 1 or self.rank_only or several

    def to_plain(self) -> dict[str, Any]:
        """Returns plain data, for JSON, without what is not given; :func:`read_mixed_precision` makes it again."""
        plain: dict[str, Any] = {"forms": [form.to_plain() for form in self.forms]}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "forms" and value != field.default:
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        return plain


def read_mixed_precision(plain: Any) -> MixedPrecision:
    """Returns what a mapping describes: the fields of `MixedPrecision`, or ``activation`` and ``weight`` for one form.

    Raises:
        ConfigError: If a key is unknown, or a value is of the wrong kind.

    Example:
        >>> read_mixed_precision({"weight": {"dtype": "int16"}, "threshold": 30}).threshold
        30
    """
    if isinstance(plain, MixedPrecision):
        return plain
    given = dict(plain)
    single = {key: given.pop(key) for key in ("activation", "weight") if key in given}
    known = (*_CHECKS, "forms", "activation", "weight")
    for key, value in given.items():
        if key not in known:
            raise ConfigError(
                f"mixed_precision: expected one of {', '.join(known)}, got {key!r}{did_you_mean(key, known)}"
            )
        check, expected = _CHECKS.get(key, _LIST)
        if not check(value):
            raise ConfigError(f"mixed_precision: {key}: expected {expected}, got {value!r}")
    if bool(single) == ("forms" in given):
        both = "both" if single else "neither"
        raise ConfigError(f"mixed_precision: expected activation and weight, or forms, got {both}")
    forms = read_layers(given.pop("forms", None) or [single], selective=False)
    if any(form.activation is None and form.weight is None for form in forms):
        raise ConfigError("mixed_precision: forms: expected activation or weight in each, got neither")
    changed: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return MixedPrecision(forms, **changed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _one_of(values: tuple[str, ...]) -> _Check:
    return lambda value: value in values, " or ".join(values)


_Check = tuple[Callable[[Any], bool], str]
_NAMES: _Check = (_are_names, "a list of strings")
_FLAG: _Check = (_is_flag, "True or False")
_LIST: _Check = (lambda value: isinstance(value, list | tuple) and bool(value), "a list of mappings")
_CHECKS: Mapping[str, _Check] = {
    "op_types": (lambda value: _are_names(value) and bool(value), "a list of operator types"),
    "include": _NAMES,
    "exclude": _NAMES,
    "objective": _one_of(get_args(Objective)),
    "metric": _one_of(get_args(OutputMetric)),
    "threshold": (lambda value: value is None or _is_number(value), "a number or None"),
    "output": (lambda value: value is None or _is_whole(value, 0), "the index of an output or None"),
    "share": (lambda value: _is_number(value) and 0 < value <= 1, "a number above 0 and at most 1"),
    "share_of": _one_of(get_args(ShareOf)),
    "samples": (lambda value: value is None or _is_whole(value, 1), "a count or None"),
    "own_inputs": _FLAG,
    "rank_only": _FLAG,
}
