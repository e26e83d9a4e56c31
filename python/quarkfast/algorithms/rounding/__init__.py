"""Solvers that choose the codes of a layer's weight by what the layer computes, one a file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.algorithms.rounding.adaquant import AdaQuant
from quarkfast.algorithms.rounding.adaround import AdaRound
from quarkfast.algorithms.rounding.descent import CoordinateDescent
from quarkfast.algorithms.rounding.gptq import Gptq
from quarkfast.algorithms.rounding.problem import RoundingProblem, Solver

__all__ = ["SOLVERS", "AdaQuant", "AdaRound", "CoordinateDescent", "Gptq", "RoundingProblem", "Solver"]

SOLVERS: Mapping[str, type[Solver]] = MappingProxyType(
    {"descent": CoordinateDescent, "adaround": AdaRound, "adaquant": AdaQuant, "gptq": Gptq}
)
"""Name of a way of rounding (`quarkfast.config.Scheme.rounding`) -> its solver, whose fields are its settings."""
