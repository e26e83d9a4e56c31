// Blocks of float4 codes with scales apart, of whole arrays, spread over a pool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "runtime/parallel.h"
#include "tensor/elementwise.h"

namespace quarkfast {

inline void quantize_mxfp4(const Kernels& kernels, const float* x, uint8_t* codes, uint8_t* scales, size_t blocks,
                           size_t block, const Pool& pool) {
  parallel_for(pool, blocks, kElementwiseGrain / block, [&](size_t begin, size_t end) {
    kernels.quantize_mxfp4_f32(x + begin * block, codes + begin * block / 2, scales + begin, end - begin, block);
  });
}

inline void dequantize_mxfp4(const Kernels& kernels, const uint8_t* codes, const uint8_t* scales, float* y,
                             size_t blocks, size_t block, const Pool& pool) {
  parallel_for(pool, blocks, kElementwiseGrain / block, [&](size_t begin, size_t end) {
    kernels.dequantize_mxfp4_f32(codes + begin * block / 2, scales + begin, y + begin * block, end - begin, block);
  });
}

inline void quantize_nvfp4(const Kernels& kernels, const float* x, uint8_t* codes, uint8_t* scales, size_t blocks,
                           float tensor_scale, const Pool& pool) {
  parallel_for(pool, blocks, kElementwiseGrain / kNvFp4Block, [&](size_t begin, size_t end) {
    kernels.quantize_nvfp4_f32(x + begin * kNvFp4Block, codes + begin * kNvFp4Block / 2, scales + begin, end - begin,
                               tensor_scale);
  });
}

inline void dequantize_nvfp4(const Kernels& kernels, const uint8_t* codes, const uint8_t* scales, float* y,
                             size_t blocks, float tensor_scale, const Pool& pool) {
  parallel_for(pool, blocks, kElementwiseGrain / kNvFp4Block, [&](size_t begin, size_t end) {
    kernels.dequantize_nvfp4_f32(codes + begin * kNvFp4Block / 2, scales + begin, y + begin * kNvFp4Block, end - begin,
                                 tensor_scale);
  });
}

}  // namespace quarkfast
