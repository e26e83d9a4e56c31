// Linear quantization to the 16-bit floats: no integer grid, only a scale and an offset. The operators call this.
#pragma once

#include "numerics/types.h"
#include "parallel.h"
#include "scale_layout.h"

namespace quarkfast {

// y = F(x / scale + zero_point); scale and zero_point hold layout.scales() values.
void quantize_linear(const float* x, bf16* y, const ScaleLayout& layout, const float* scale, const bf16* zero_point,
                     const Pool& pool);
void quantize_linear(const float* x, f16* y, const ScaleLayout& layout, const float* scale, const f16* zero_point,
                     const Pool& pool);

// y = (float32(x) - zero_point) * scale.
void dequantize_linear(const bf16* x, float* y, const ScaleLayout& layout, const float* scale, const bf16* zero_point,
                       const Pool& pool);
void dequantize_linear(const f16* x, float* y, const ScaleLayout& layout, const float* scale, const f16* zero_point,
                       const Pool& pool);

}  // namespace quarkfast
