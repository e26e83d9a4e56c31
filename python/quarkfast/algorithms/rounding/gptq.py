"""GPTQ: weights are rounded one input after the other, and the inputs that follow make up for each error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from quarkfast.algorithms.rounding.descent import CoordinateDescent
from quarkfast.algorithms.rounding.feedback_codes import feedback_codes
from quarkfast.algorithms.rounding.problem import RoundingProblem

__all__ = ["GptqSolver"]


@dataclass(frozen=True, slots=True)
class GptqSolver:
    """Rounding with error feedback, in one pass over the inputs of a layer.

    Scales are those of the inputs' places in the weight, whatever the order in which they are rounded.

    Attributes:
        act_order: Whether inputs are rounded from the largest mean square down, and not in their order.
        block_size: Inputs whose errors are carried over to all that follow at once.
        passes: How many passes of coordinate descent go over the codes afterwards; the published algorithm has none.

    Source:
        E. Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2023,
        algorithm 1; `act_order` is of its published code.
    """

    act_order: bool = False
    block_size: int = 128
    passes: int = 0

    def solve(self, problem: RoundingProblem) -> NDArray[Any]:
        """Returns the codes; the nearest ones in rows that these make no better, or if ``G`` is singular."""
        codes = feedback_codes(problem, act_order=self.act_order, block_size=self.block_size)
        return CoordinateDescent(self.passes).improve(problem.with_codes(codes)) if self.passes else codes
