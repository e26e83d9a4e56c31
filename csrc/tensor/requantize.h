// Requantization of whole arrays of 32-bit sums to 8-bit codes, per tensor or per channel, spread over a pool.
#pragma once

#include <cstdint>

#include "export.h"
#include "tensor/linear.h"

namespace quarkfast {

// How a shift rounds what lies halfway: towards plus infinity, as adders in hardware do, or to even.
enum class HalfRounding { kUp, kEven };

// Q is int8_t or uint8_t. scale, shift and zero_point hold layout.scales() values; zero_point may be null, which means
// zeros. Shifts lie in [0, 31].
template <class Q>
QUARKFAST_API void requantize_linear(const int32_t* x, Q* y, const ScaleLayout& layout, const float* scale,
                                     const Q* zero_point, CodeRange range, const Pool& pool);

template <class Q>
QUARKFAST_API void requantize_shift(const int32_t* x, Q* y, const ScaleLayout& layout, const int32_t* shift,
                                    const Q* zero_point, CodeRange range, HalfRounding rounding, const Pool& pool);

}  // namespace quarkfast
