"""From a range and a spec to scale and zero point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from quarkfast import qparams
from quarkfast.errors import UnsupportedError
from quarkfast.qparams import QParams
from quarkfast.ranges.registry import METHODS
from quarkfast.ranges.summary import RangeSpec

__all__ = ["params_for"]


def params_for(low: ArrayLike, high: ArrayLike, spec: RangeSpec) -> QParams:
    """Returns scale and zero point of the range ``[low, high]``, element by element where these are arrays.

    Power-of-two scales are the nearest ones, for ``"nonoverflow"`` the next larger ones: Quark's method of that name
    rounds to the nearest and saturates up to 29 % of the range. Scales ``M / 2^N`` are the nearest ones, and so are
    those of float16, but for subnormal ones (below ``2^-14``), which are rounded up to whole ``2^-24``.

    Raises:
        UnsupportedError: If a scale ``M / 2^N`` would be above 32767, or one of float16 above 65504.
    """
    if spec.scale == "half":
        return _half_params(low, high, spec)
    params = qparams.from_range(low, high, spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
    if spec.scale == "power_of_two":
        return qparams.power_of_two(params, METHODS[spec.method].power_of_two)
    if spec.scale == "float32":
        return params
    if (params.scale > qparams.LARGEST_MULTIPLIER).any():
        raise UnsupportedError(
            f"dyadic scales: expected numbers of at most {qparams.LARGEST_MULTIPLIER}, got {params.scale.max()}; "
            "use float32 scales"
        )
    return qparams.dyadic_scale(params)[0]


def _half_params(low: ArrayLike, high: ArrayLike, spec: RangeSpec) -> QParams:
    """Returns parameters whose scales are numbers of float16, held as float32, which gives the same codes."""
    settings = {"symmetric": spec.symmetric, "reduce_range": spec.reduce_range}
    try:
        params = qparams.from_range(low, high, spec.dtype, **settings, scale_dtype="float16")
    except ValueError as error:
        message = str(error).removeprefix("from_range: ")
        raise UnsupportedError(f"float16 scales: {message}") from None
    return replace(params, scale=params.scale.astype(np.float32))
