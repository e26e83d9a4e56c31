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
    qmin: int,
    qmax: int,
    reach: int,
    passes: int,
) -> NDArray[Any]:
    """Returns what `quarkfast.kernels.descend_codes` does."""
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
                wanted = np.clip(found[row, k] + np.rint(free), max(start - reach, qmin), min(start + reach, qmax))
                rest[row] -= ((wanted - found[row, k]) * step) * gram[k]
                found[row, k] = wanted
            if np.array_equal(before, found[row]):
                break
    return found.astype(codes.dtype)
