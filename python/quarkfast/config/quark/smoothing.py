"""Quark's settings of SmoothQuant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import AlgoConfig, SmoothQuantConfig
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError

__all__ = ["smoothed_as_asked"]

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
