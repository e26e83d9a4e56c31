// Linear quantization of whole arrays: per tensor, per channel or per block, spread over a pool. Operators and bindings
// call this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "export.h"
#include "numerics/code_range.h"
#include "numerics/types.h"
#include "runtime/parallel.h"
#include "tensor/scale_layout.h"

namespace quarkfast {

// Q is i2, u2, i4, u4, int8_t, uint8_t, int16_t, uint16_t, int32_t or uint32_t; X and Y are float, f16 or bf16, which
// are widened to float32 before and rounded (half to even) after. scale and zero_point hold layout.scales() values;
// zero_point may be null, which means zeros.
template <class Q, class X>
QUARKFAST_API void quantize_linear(const X* x, Q* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                                   CodeRange range, const Pool& pool);

template <class Q, class Y>
QUARKFAST_API void dequantize_linear(const Q* x, Y* y, const ScaleLayout& layout, const float* scale,
                                     const Q* zero_point, const Pool& pool);

// y may be x.
template <class Q, class X>
QUARKFAST_API void fake_quantize_linear(const X* x, X* y, const ScaleLayout& layout, const float* scale,
                                        const Q* zero_point, CodeRange range, const Pool& pool);

}  // namespace quarkfast
