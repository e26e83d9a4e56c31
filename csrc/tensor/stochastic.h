// Stochastic rounding of whole arrays, spread over a pool. Places are counted in C order from the beginning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "export.h"
#include "numerics/code_range.h"
#include "numerics/types.h"
#include "runtime/parallel.h"

namespace quarkfast {

// A C-contiguous array seen as [outer, channels, inner], of which each channel has a scale.
struct ChannelLayout {
  size_t outer = 1, channels = 1, inner = 1;

  size_t size() const { return outer * channels * inner; }
};

// q = saturate(stochastic(x / s) + z). Q is a type of at most 16 bits; zero_point may be null, which means zeros.
template <class Q>
QUARKFAST_API void quantize_linear_stochastic(const float* x, Q* y, const ChannelLayout& layout, const float* scale,
                                              const Q* zero_point, CodeRange range, uint64_t seed, const Pool& pool);

QUARKFAST_API void cast_stochastic(const float* x, bf16* y, size_t n, uint64_t seed, const Pool& pool);

}  // namespace quarkfast
