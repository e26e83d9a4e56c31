"""Quark's settings of cross-layer equalization, QuaRot and SmoothQuant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from quarkfast.config.equalization import SETTINGS, read_equalization
from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import AlgoConfig, CLEConfig, QuarotConfig, SmoothQuantConfig
from quarkfast.config.quark.assemble import equalized
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean

__all__ = ["check_equalized", "equalized_as_asked", "equalizing", "rotated_as_asked", "smoothed_as_asked"]

_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "CLESteps": "cle_steps",
        "CLEBalanceMethod": "cle_balance_method",
        "CLEWeightThreshold": "cle_weight_threshold",
        "CLEScaleUseThreshold": "cle_scale_use_threshold",
        "CLEScaleAppendBias": "cle_scale_append_bias",
        "CLETotalLayerDiffThreshold": "cle_total_layer_diff_threshold",
    }
)

# Quark's defaults, and its flow's own of the last one: they stand for quarkfast's defaults.
_DEFAULTS: dict[str, tuple[Any, ...]] = {each.name: (each.default,) for each in fields(CLEConfig)}
_DEFAULTS["cle_total_layer_diff_threshold"] += (2e-7,)


def equalizing(algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the settings that are given; None where neither equalization nor one of them is named.

    A key says what it says. Arguments of `CLEConfig` count where they differ from Quark's defaults, since the others
    may have been left out.

    Raises:
        UnsupportedError: a value cannot be honoured.
        ConfigError: a configuration has further options that are unknown.

    Example:
        >>> equalizing([CLEConfig(cle_steps=3)], {}), equalizing(None, {"CLEScaleUseThreshold": False})
        ({'cle_steps': 3}, {'cle_scale_use_threshold': False})
    """
    found = [each for each in algorithms or () if isinstance(each, CLEConfig)]
    further = {key: value for each in found for key, value in each.options.items()}
    for key in further:
        if key not in _KEYS:
            raise ConfigError(f"CLEConfig: options: expected a known key, got {key!r}{did_you_mean(key, _KEYS)}")
    every = {**further, **options}
    given = {own: every[key] for key, own in _KEYS.items() if every.get(key) is not None}
    if not found and not given:
        return None
    arguments = {name: getattr(each, name) for each in found for name in _KEYS.values()}
    given = {name: value for name, value in arguments.items() if not _is_default(name, value)} | given
    for name, value in given.items():
        if not SETTINGS[name].accepts(value):
            key = next(key for key, own in _KEYS.items() if own == name)
            where = f"option {key}" if key in every else f"CLEConfig: {name}"
            raise UnsupportedError(f"{where}: expected {SETTINGS[name].expects}, got {value!r}")
    return {name: value for name, value in given.items() if name != "cle_balance_method"}


def _is_default(name: str, value: Any) -> bool:
    return any(type(each) is type(value) and each == value for each in _DEFAULTS[name])


def equalized_as_asked(
    scheme: Scheme, algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any], *, wanted: bool
) -> Scheme:
    """Returns a scheme with equalization, if it is wanted, and its settings.

    Args:
        scheme: Any.
        algorithms: Quark's, of which `CLEConfig` has settings.
        options: Quark's extra options, some of which are such settings.
        wanted: Whether anything asks for it besides settings.

    Raises:
        UnsupportedError: a value cannot be honoured.
        ConfigError: settings differ from the defaults, and nothing is equalized.
    """
    settings, scheme = equalizing(algorithms, options), equalized(scheme, wanted)
    check_equalized(scheme, {key: (settings or {}).get(own) for key, own in _KEYS.items()})
    return replace(scheme, equalize_options=read_equalization(settings or {})) if scheme.equalize else scheme


def check_equalized(scheme: Scheme, options: Mapping[str, Any]) -> None:
    """Make sure that settings of equalization, by Quark's keys, stand beside it.

    Raises:
        ConfigError: One differs from its default, and nothing is equalized.
    """
    for key, own in _KEYS.items():
        value = options.get(key)
        if value is not None and not _is_default(own, value) and not scheme.equalize:
            raise ConfigError(
                f"option {key}: expected equalization beside it, got none for {scheme.name}; leave it out"
            )


def rotated_as_asked(
    scheme: Scheme, algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any], *, wanted: bool = False
) -> Scheme:
    """Returns a scheme with Hadamard rotations if `QuarotConfig` is among the algorithms, or they are wanted.

    `r_matrix_dim` and ``RMatrixDim`` say nothing: a matrix has as many channels as the stream that it turns. No more do
    `r_config_path` and ``RConfigPath``: streams are found in the graph.

    Args:
        scheme: Any.
        algorithms: Quark's.
        options: Quark's extra options, of which ``UseRandomHad`` counts.
        wanted: Whether anything else asks for rotations.

    Raises:
        ConfigError: Activations are not quantized, a setting stands beside no rotation, or it is of another kind.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> rotated_as_asked(PRESETS["A8W8"], [QuarotConfig(use_random_had=True)], {}).rotation
        'random'
    """
    found = [each for each in algorithms or () if isinstance(each, QuarotConfig)]
    for each in found:
        if not isinstance(each.r_config_path, str | None):
            raise ConfigError(f"QuarotConfig: r_config_path: expected a path or None, got {each.r_config_path!r}")
        size, wished = each.r_matrix_dim, each.use_random_had
        if type(size) is not int or size < 1:
            raise ConfigError(f"QuarotConfig: r_matrix_dim: expected a whole number above 0, got {size!r}")
        if not isinstance(wished, bool):
            raise ConfigError(f"QuarotConfig: use_random_had: expected True or False, got {wished!r}")
    random = options.get("UseRandomHad") is True
    if not found and not wanted:
        if random:
            raise ConfigError("option UseRandomHad: expected QuaRot beside it, got none; leave it out")
        return scheme
    random = random or any(each.use_random_had for each in found)
    return apply_options(scheme, {"rotation": "random" if random else "hadamard"})


_KEY, _DEFAULT = "SmoothAlpha", 0.5


def smoothed_as_asked(
    scheme: Scheme, algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any], *, wanted: bool = False
) -> Scheme:
    """Returns a scheme with SmoothQuant if `SmoothQuantConfig` is among the algorithms or it is `wanted` otherwise.

    Args:
        scheme: Any.
        algorithms: Quark's, of which `SmoothQuantConfig` has an exponent.
        options: Quark's extra options; its key wins.
        wanted: Whether anything else asks for it.

    Raises:
        ConfigError: The exponent is none, nothing is smoothed by it, or the scheme has no activations to smooth.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> smoothed_as_asked(PRESETS["A8W8"], [SmoothQuantConfig(alpha=0.8)], {}).smooth_alpha
        0.8
    """
    found = [each.alpha for each in algorithms or () if isinstance(each, SmoothQuantConfig)]
    alpha = options.get(_KEY, found[-1] if found else _DEFAULT)
    if found or wanted:
        return apply_options(scheme, {"smooth_alpha": alpha})
    if alpha != _DEFAULT:
        raise ConfigError(f"option {_KEY}: expected SmoothQuant beside it, got none; leave it out")
    return scheme
