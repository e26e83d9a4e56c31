"""Quark's settings of QuaRot: ``QuarotConfig``, ``include_rotation`` and keys of the extra options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import AlgoConfig, QuarotConfig
from quarkfast.config.scheme import Scheme
from quarkfast.errors import ConfigError, UnsupportedError

__all__ = ["rotated_as_asked"]


def rotated_as_asked(
    scheme: Scheme, algorithms: Sequence[AlgoConfig] | None, options: Mapping[str, Any], *, wanted: bool = False
) -> Scheme:
    """Returns a scheme with Hadamard rotations if `QuarotConfig` is among the algorithms, or they are wanted.

    `r_matrix_dim` and ``RMatrixDim`` say nothing: a matrix has as many channels as the stream that it turns.

    Args:
        scheme: Any.
        algorithms: Quark's.
        options: Quark's extra options, of which ``UseRandomHad`` counts.
        wanted: Whether anything else asks for rotations.

    Raises:
        UnsupportedError: Pairs of layers come from a file.
        ConfigError: Activations are not quantized, a setting stands beside no rotation, or it is of another kind.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> rotated_as_asked(PRESETS["A8W8"], [QuarotConfig(use_random_had=True)], {}).rotation
        'random'
    """
    found = [each for each in algorithms or () if isinstance(each, QuarotConfig)]
    for each in found:
        if each.r_config_path is not None:
            got = each.r_config_path
            raise UnsupportedError(
                f"QuarotConfig: r_config_path: expected None, for streams are found in the graph, got {got!r}"
            )
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
