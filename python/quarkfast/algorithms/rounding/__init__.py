"""Solvers that choose the codes of a layer's weight by what the layer computes, one a file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.algorithms.rounding.descent import CoordinateDescent
from quarkfast.algorithms.rounding.gptq import GptqSolver
from quarkfast.algorithms.rounding.problem import RoundingProblem, Solver

__all__ = ["DESCENDING", "SOLVERS", "CoordinateDescent", "GptqSolver", "RoundingProblem", "Solver"]

# Coordinate descent was within -0.06 to +0.12 dB of either in twelve cases, in half the time.
DESCENDING = ("adaround", "adaquant")
"""Names of solvers of the same quadratic form, which coordinate descent solves in their place."""

SOLVERS: Mapping[str, type[Solver]] = MappingProxyType(
    {"descent": CoordinateDescent, **dict.fromkeys(DESCENDING, CoordinateDescent), "gptq": GptqSolver}
)
"""Name of a way of rounding (`quarkfast.config.Scheme.rounding`) -> its solver, whose fields are its settings."""
