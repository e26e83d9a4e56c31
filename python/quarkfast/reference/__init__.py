"""Every kernel again, slow and obvious, in NumPy: the executable specification of ``docs/numerics.md``.

Names are those of the native table. Functions take and return arrays; scale and zero point are broadcast to ``x`` by
:func:`per_element` beforehand, so that nothing here knows about axes or blocks.
"""

from quarkfast.reference.blocks import (
    dequantize_bfp,
    dequantize_bfp_prime,
    dequantize_mx,
    fake_quantize_bfp,
    fake_quantize_bfp_prime,
    fake_quantize_mx,
    join_blocks,
    quantize_bfp,
    quantize_bfp_prime,
    quantize_mx,
    split_blocks,
)
from quarkfast.reference.casts import (
    cast_bf16_f32,
    cast_f16_f32,
    cast_f32_bf16,
    cast_f32_f16,
    round_trip_f32_bf16,
    round_trip_f32_f16,
)
from quarkfast.reference.descent import descend_codes
from quarkfast.reference.fp4 import dequantize_mxfp4, dequantize_nvfp4, quantize_mxfp4, quantize_nvfp4
from quarkfast.reference.gguf import dequantize_gguf, quantize_gguf
from quarkfast.reference.linear import (
    dequantize_float,
    dequantize_linear,
    fake_quantize_linear,
    per_element,
    quantize_float,
    quantize_linear,
)
from quarkfast.reference.packing import (
    dequantize_linear_blocks,
    pack_codes,
    pack_columns,
    pack_linear_blocks,
    unpack_codes,
)
from quarkfast.reference.range_estimation import (
    entropy_divergences,
    entropy_range,
    entropy_window_range,
    least_error_range,
    percentile_range,
    power_of_two_range,
    qparams_from_range,
    quantization_error,
    spread,
)
from quarkfast.reference.requantize import requantize_linear, requantize_shift
from quarkfast.reference.rows import quantize_rows
from quarkfast.reference.statistics import (
    count_histogram,
    merge_histograms,
    reduce_absmax,
    reduce_extremes,
    reduce_range,
    sum_moments,
)
from quarkfast.reference.stochastic import cast_stochastic, quantize_linear_stochastic

__all__ = [
    "cast_bf16_f32",
    "cast_f16_f32",
    "cast_f32_bf16",
    "cast_f32_f16",
    "cast_stochastic",
    "count_histogram",
    "dequantize_bfp",
    "dequantize_bfp_prime",
    "dequantize_float",
    "dequantize_gguf",
    "dequantize_linear",
    "dequantize_linear_blocks",
    "dequantize_mx",
    "dequantize_mxfp4",
    "dequantize_nvfp4",
    "descend_codes",
    "entropy_divergences",
    "entropy_range",
    "entropy_window_range",
    "fake_quantize_bfp",
    "fake_quantize_bfp_prime",
    "fake_quantize_linear",
    "fake_quantize_mx",
    "join_blocks",
    "least_error_range",
    "merge_histograms",
    "pack_codes",
    "pack_columns",
    "pack_linear_blocks",
    "per_element",
    "percentile_range",
    "power_of_two_range",
    "qparams_from_range",
    "quantization_error",
    "quantize_bfp",
    "quantize_bfp_prime",
    "quantize_float",
    "quantize_gguf",
    "quantize_linear",
    "quantize_linear_stochastic",
    "quantize_mx",
    "quantize_mxfp4",
    "quantize_nvfp4",
    "quantize_rows",
    "reduce_absmax",
    "reduce_extremes",
    "reduce_range",
    "requantize_linear",
    "requantize_shift",
    "round_trip_f32_bf16",
    "round_trip_f32_f16",
    "split_blocks",
    "spread",
    "sum_moments",
    "unpack_codes",
]
