"""Scales of the form M / 2^N, for targets that multiply by an integer and shift."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.qparams.ranges import QParams

__all__ = ["LARGEST_MULTIPLIER", "dyadic_scale"]

LARGEST_MULTIPLIER = 32767
"""The largest number of 16 bits."""


def dyadic_scale(params: QParams, max_shift: int = 16) -> tuple[QParams, NDArray[np.int64], NDArray[np.int64]]:
    """Replace the scale by the nearest ``multiplier / 2**shift`` with a positive 16-bit multiplier.

    Args:
        params: From :func:`from_range`.
        max_shift: Largest shift, 0 to 62.

    Returns:
        Parameters with the new scale, the multipliers (1 to 32767) and the shifts; among equally near scales the
        smallest shift. A scale below the smallest one becomes ``2**-max_shift``.

    Raises:
        TypeError: float16 scales, which cannot hold 15-bit multipliers.
        ValueError: a scale above 32767, or ``max_shift`` outside its range.

    Source:
        Quark's ``Int16Scale`` (shifts 0 to 16), which gives 2**-14 instead where its multiplier would be 0.

    Example:
        >>> from quarkfast.qparams import from_range
        >>> p, multiplier, shift = dyadic_scale(from_range(0.0, 0.3 * 255, "uint8"))
        >>> float(p.scale), int(multiplier), int(shift)
        (0.3000030517578125, 19661, 16)
    """
    if not 0 <= max_shift <= 62:
        raise ValueError(f"dyadic_scale: max_shift: expected 0 to 62, got {max_shift}")
    if params.scale.dtype != np.float32:
        raise TypeError(f"dyadic_scale: scale: expected float32, got {params.scale.dtype}")
    scale = params.scale.astype(np.float64)
    if (scale > LARGEST_MULTIPLIER).any():
        raise ValueError(f"dyadic_scale: scale: expected at most {LARGEST_MULTIPLIER}, got {scale.max()}")
    best = np.full(scale.shape, np.inf)
    multiplier, shift = np.ones(scale.shape, np.int64), np.full(scale.shape, max_shift, np.int64)
    for n in range(max_shift + 1):
        for candidate in (np.floor(np.ldexp(scale, n)), np.ceil(np.ldexp(scale, n))):
            distance = np.abs(np.ldexp(candidate, -n) - scale)
            better = (candidate >= 1) & (candidate <= LARGEST_MULTIPLIER) & (distance < best)
            best = np.where(better, distance, best)
            multiplier = np.where(better, candidate, multiplier).astype(np.int64)
            shift = np.where(better, n, shift)
    return params.with_scale(np.ldexp(multiplier.astype(np.float64), -shift)), multiplier, shift
