"""Quark's settings of QuaRot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quarkfast.config.quark.algorithm import AlgoConfig, QuarotConfig
from quarkfast.config.scheme import Scheme
from quarkfast.errors import UnsupportedError

__all__ = ["rotated"]


def rotated(scheme: Scheme, algorithms: Sequence[AlgoConfig] | None) -> Scheme:
    """Returns a scheme with Hadamard rotations if `QuarotConfig` is among the algorithms.

    Its `r_matrix_dim` says nothing: a matrix has as many channels as the stream that it turns.

    Raises:
        UnsupportedError: Pairs of layers come from a file.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> rotated(PRESETS["A8W8"], [QuarotConfig(use_random_had=True)]).rotation
        'random'
    """
    for each in algorithms or ():
        if not isinstance(each, QuarotConfig):
            continue
        if each.r_config_path is not None:
            got = each.r_config_path
            raise UnsupportedError(
                f"QuarotConfig: r_config_path: expected None, for streams are found in the graph, got {got!r}"
            )
        scheme = replace(scheme, rotation="random" if each.use_random_had else "hadamard")
    return scheme
