// Linear quantization to the 16-bit floats: no integer grid, only a scale and an offset. Operators and bindings call
// this.
#pragma once

#include "export.h"
#include "numerics/types.h"
#include "runtime/parallel.h"
#include "tensor/scale_layout.h"

namespace quarkfast {

// y = F(x / scale + zero_point); scale and zero_point hold layout.scales() values. zero_point may be null, which means
// zeros.
QUARKFAST_API void quantize_float(const float* x, bf16* y, const ScaleLayout& layout, const float* scale,
                                  const bf16* zero_point, const Pool& pool);
QUARKFAST_API void quantize_float(const float* x, f16* y, const ScaleLayout& layout, const float* scale,
                                  const f16* zero_point, const Pool& pool);

// y = (float32(x) - zero_point) * scale.
QUARKFAST_API void dequantize_float(const bf16* x, float* y, const ScaleLayout& layout, const float* scale,
                                    const bf16* zero_point, const Pool& pool);
QUARKFAST_API void dequantize_float(const f16* x, float* y, const ScaleLayout& layout, const float* scale,
                                    const f16* zero_point, const Pool& pool);

}  // namespace quarkfast
