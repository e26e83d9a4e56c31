"""The stored form of a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.dtypes import qtype
from quarkfast.graph.plan import Quantizer

__all__ = ["codes_of", "limited"]

# Quark keeps the magnitude of bfloat16 weights between the smallest normal number and a bound just under the largest
# finite bfloat16 (specification of Quark, section 3.5), so that no weight becomes infinite or subnormal.
_BFLOAT16_SMALLEST = np.float32(1.17549435e-38)
_BFLOAT16_LARGEST = np.float32(3.38953139e38)


def limited(values: NDArray[np.float32], dtype: str) -> NDArray[np.float32]:
    """Returns float32 values whose magnitude `dtype` can hold as a normal number; zeros stay zero.

    Example:
        >>> import numpy as np
        >>> limited(np.float32([0.0, 1e-40, -3.4e38]), "bfloat16").tolist()
        [0.0, 1.1754943508222875e-38, -3.3895313892515355e+38]
    """
    if dtype == "float16":
        return np.clip(values, np.float32(-65504), np.float32(65504))
    if dtype != "bfloat16":
        return values
    magnitude = np.clip(np.abs(values), _BFLOAT16_SMALLEST, _BFLOAT16_LARGEST)
    return np.where(values == 0, values, np.copysign(magnitude, values))


def codes_of(values: NDArray[np.float32], quantizer: Quantizer) -> NDArray[Any]:
    """Returns `values` as the codes of `quantizer`, in the NumPy dtype of its type.

    A bias is divided in float64: its codes have up to 31 bits, more than a float32 quotient.
    """
    row = qtype(quantizer.dtype)
    if not row.is_integer:
        return kernels.cast(limited(values, quantizer.dtype), row.dtype)
    if row.bits > 16:
        codes = np.rint(values.astype(np.float64) / quantizer.scale.astype(np.float64))
        return np.clip(codes, row.qmin, row.qmax).astype(row.dtype)
    axis = 0 if quantizer.axis is None else quantizer.axis
    return kernels.quantize_linear(
        values,
        quantizer.scale,
        quantizer.zero_point,
        dtype=row.dtype,
        axis=axis,
        qmin=quantizer.qmin,
        qmax=quantizer.qmax,
    )
