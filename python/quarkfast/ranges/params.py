"""From a range and a spec to scale and zero point."""

from __future__ import annotations

from numpy.typing import ArrayLike

from quarkfast import qparams
from quarkfast.qparams import QParams
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import RangeSpec

__all__ = ["params_for"]


def params_for(low: ArrayLike, high: ArrayLike, spec: RangeSpec) -> QParams:
    """Returns scale and zero point of the range ``[low, high]``, element by element where these are arrays.

    Power-of-two scales are the nearest ones, for ``"nonoverflow"`` the next larger ones: Quark's method of that name
    rounds to the nearest and saturates up to 29 % of the range.
    """
    params = qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
    rule = METHODS[spec.method].power_of_two
    return qparams.power_of_two(params, rule) if spec.scale == "power_of_two" else params
