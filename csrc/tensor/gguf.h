// Blocks of GGUF files over whole arrays, spread over a pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "runtime/parallel.h"
#include "tensor/elementwise.h"

namespace quarkfast {

inline void quantize_gguf(const GgufKernels& kernels, const float* x, uint8_t* records, size_t blocks,
                          const Pool& pool) {
  const GgufSize size = kernels.size;
  parallel_for(pool, blocks, kElementwiseGrain / size.values, [&](size_t begin, size_t end) {
    kernels.quantize(x + begin * size.values, records + begin * size.bytes, end - begin);
  });
}

inline void dequantize_gguf(const GgufKernels& kernels, const uint8_t* records, float* y, size_t blocks,
                            const Pool& pool) {
  const GgufSize size = kernels.size;
  parallel_for(pool, blocks, kElementwiseGrain / size.values, [&](size_t begin, size_t end) {
    kernels.dequantize(records + begin * size.bytes, y + begin * size.values, end - begin);
  });
}

}  // namespace quarkfast
