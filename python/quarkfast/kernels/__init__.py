"""The kernels, NumPy in and NumPy out: typed functions over the native library.

Every function accepts arrays of any shape and memory layout; one that is not C-contiguous is copied first. ``out``
must be C-contiguous, of the right dtype and shape, and may be ``x`` itself where both have the same item size.
The arithmetic is stated in ``docs/numerics.md`` and written again, slowly, in :mod:`quarkfast.reference`.
"""

from quarkfast.kernels.bfp import (
    dequantize_bfp,
    dequantize_bfp_prime,
    fake_quantize_bfp,
    fake_quantize_bfp_prime,
    quantize_bfp,
    quantize_bfp_prime,
)
from quarkfast.kernels.casts import cast, round_trip
from quarkfast.kernels.descent import descend_codes
from quarkfast.kernels.fp4 import (
    MxFp4,
    NvFp4,
    dequantize_mxfp4,
    dequantize_nvfp4,
    quantize_mxfp4,
    quantize_nvfp4,
)
from quarkfast.kernels.gguf import dequantize_gguf, quantize_gguf
from quarkfast.kernels.linear import (
    dequantize_linear,
    fake_quantize_linear,
    quantize_linear,
    quantize_linear_mirrored,
)
from quarkfast.kernels.linear_blocks import dequantize_float, pack_linear_blocks, quantize_float
from quarkfast.kernels.matmul_nbits import MatMulNBits, pack_matmul_nbits, unpack_matmul_nbits
from quarkfast.kernels.mx import dequantize_mx, fake_quantize_mx, quantize_mx
from quarkfast.kernels.packing import pack_codes, pack_columns, unpack_codes
from quarkfast.kernels.range_estimation import (
    entropy_range,
    least_error_range,
    percentile_range,
    power_of_two_range,
    quantization_error,
    spread,
)
from quarkfast.kernels.requantize import requantize_linear, requantize_shift
from quarkfast.kernels.rows import quantize_rows
from quarkfast.kernels.statistics import Histogram, Moments, Range, absmax, extremes, histogram, moments, reduce_range
from quarkfast.kernels.stochastic import cast_stochastic, quantize_linear_stochastic

__all__ = [
    "Histogram",
    "MatMulNBits",
    "Moments",
    "MxFp4",
    "NvFp4",
    "Range",
    "absmax",
    "cast",
    "cast_stochastic",
    "dequantize_bfp",
    "dequantize_bfp_prime",
    "dequantize_float",
    "dequantize_gguf",
    "dequantize_linear",
    "dequantize_mx",
    "dequantize_mxfp4",
    "dequantize_nvfp4",
    "descend_codes",
    "entropy_range",
    "extremes",
    "fake_quantize_bfp",
    "fake_quantize_bfp_prime",
    "fake_quantize_linear",
    "fake_quantize_mx",
    "histogram",
    "least_error_range",
    "moments",
    "pack_codes",
    "pack_columns",
    "pack_linear_blocks",
    "pack_matmul_nbits",
    "percentile_range",
    "power_of_two_range",
    "quantization_error",
    "quantize_bfp",
    "quantize_bfp_prime",
    "quantize_float",
    "quantize_gguf",
    "quantize_linear",
    "quantize_linear_mirrored",
    "quantize_linear_stochastic",
    "quantize_mx",
    "quantize_mxfp4",
    "quantize_nvfp4",
    "quantize_rows",
    "reduce_range",
    "requantize_linear",
    "requantize_shift",
    "round_trip",
    "spread",
    "unpack_codes",
    "unpack_matmul_nbits",
]
