"""Statistics of arrays."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from quarkfast import _core
from quarkfast.kernels.arguments import F32, contiguous

__all__ = ["Range", "reduce_range"]


@dataclass(frozen=True, slots=True)
class Range:
    """Extremes of the finite values of an array, and counts.

    Attributes:
        min: Smallest finite value, ``inf`` when there is none.
        max: Largest finite value, ``-inf`` when there is none.
        count: Number of all values.
        nan: Number of NaN.
        pos_inf: Number of +infinity.
        neg_inf: Number of -infinity.
    """

    min: float
    max: float
    count: int
    nan: int
    pos_inf: int
    neg_inf: int


def reduce_range(x: ArrayLike) -> Range:
    """Find minimum and maximum of the finite values and count the others.

    Args:
        x: float32 array of any shape.

    Returns:
        The range; ``min`` and ``max`` are never ``-0.0``.

    Raises:
        TypeError: ``x`` is not float32.

    Example:
        >>> import numpy as np
        >>> reduce_range(np.float32([1.5, -2.0, np.nan, np.inf]))
        Range(min=-2.0, max=1.5, count=4, nan=1, pos_inf=1, neg_inf=0)
    """
    return Range(**_core.reduce_range_f32(contiguous(x, "reduce_range_f32", F32)))
