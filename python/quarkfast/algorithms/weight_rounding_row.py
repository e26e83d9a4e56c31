"""The row of weight rounding, which loads its solvers only for a scheme that asks for them."""

from __future__ import annotations

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.config import Scheme

__all__ = ["WEIGHT_ROUNDING"]


def _settings(scheme: Scheme) -> Settings | None:
    if scheme.rounding == "nearest":
        return None
    from quarkfast.algorithms.weight_rounding import settings_of

    return settings_of(scheme)


def _run(context: AlgorithmContext, settings: Settings) -> bool:
    from quarkfast.algorithms.weight_rounding import round_weights

    return round_weights(context, settings)


WEIGHT_ROUNDING = Algorithm("weight rounding", "codes", _settings, _run, stage="round")
