"""Statistics, told slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["reduce_range_f32"]

Array = NDArray[Any]


def reduce_range_f32(x: Array) -> dict[str, float | int]:
    """Extremes of the finite values, counts of the others; zero has no sign."""
    x = np.asarray(x, np.float32)
    finite = x[np.isfinite(x)]
    return {
        "min": float(finite.min()) + 0.0 if finite.size else np.inf,
        "max": float(finite.max()) + 0.0 if finite.size else -np.inf,
        "count": x.size,
        "nan": int(np.isnan(x).sum()),
        "pos_inf": int(np.isposinf(x).sum()),
        "neg_inf": int(np.isneginf(x).sum()),
    }
