// Dynamic quantization of rows to int8, each with the scale of its own values, spread over a pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels.h"
#include "runtime/parallel.h"
#include "tensor/elementwise.h"

namespace quarkfast {

// scale[r] = the largest finite magnitude of row r / 127, at least the smallest normal float32; codes as of
// quantize_linear. A row is read twice, the second time from cache.
inline void quantize_rows(const Kernels& kernels, const float* x, int8_t* y, float* scale, size_t rows, size_t n,
                          const Pool& pool) {
  parallel_for(pool, rows, kElementwiseGrain / std::max<size_t>(n, 1) + 1, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      const int8_t zero = 0;
      float top = 0.0f;
      kernels.stats_f32.reduce_absmax(x + r * n, n, &top);
      scale[r] = std::max(top / 127.0f, std::numeric_limits<float>::min());
      kernels.i8.quantize_linear(x + r * n, y + r * n, 1, n, scale + r, &zero, -128, 127);
    }
  });
}

}  // namespace quarkfast
