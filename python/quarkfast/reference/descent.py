"""Coordinate descent over codes, one code at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["descend_codes"]


def descend_codes(
    codes: NDArray[Any],
    scale: NDArray[np.float64],
    gram: NDArray[np.float64],
    residual: NDArray[np.float64],
    qmin: int | NDArray[Any],
    qmax: int | NDArray[Any],
    reach: int,
    passes: int,
) -> NDArray[Any]:
    """Returns what `quarkfast.kernels.descend_codes` does; `qmin` and `qmax` may be limits of each place."""
    low, high = (np.broadcast_to(limit, codes.shape) for limit in (qmin, qmax))
    found, rest = codes.astype(np.float64), residual.copy()
    for row, step in enumerate(scale):
        for _ in range(passes):
            before = found[row].copy()
            for k, diagonal in enumerate(np.diag(gram)):
                if not diagonal * step > 0:
                    continue
                free = rest[row, k] / (diagonal * step)
                if np.isnan(free):
                    continue
                start = float(codes[row, k])
                limits = max(start - reach, low[row, k]), min(start + reach, high[row, k])
                wanted = np.clip(found[row, k] + np.rint(free), *limits)
                rest[row] -= ((wanted - found[row, k]) * step) * gram[k]
                found[row, k] = wanted
            if np.array_equal(before, found[row]):
                break
    return found.astype(codes.dtype)
