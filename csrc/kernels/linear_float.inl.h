// Linear quantization to bfloat16 and float16: y = F(x / scale + zero_point), back: (x - zero_point) * scale, all in
// float32 with each operation rounded (docs/numerics.md). NaN stays NaN. bfloat16 overflows to infinity, float16
// saturates at +-65504, which keeps infinities out of half-precision hardware. Zeros follow AMD Quark's operators, so
// that models give the same bits with either library: adding a zero point of +0 turns -0 into +0 for bfloat16, while
// float16 keeps -0.
#pragma once

#include <cstddef>

#include "kernels/cast_bf16.inl.h"
#include "kernels/cast_f16.inl.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

void quantize_float_f32_bf16(const float* __restrict x, bf16* __restrict y, size_t n, float scale, float zero_point) {
  for (size_t i = 0; i < n; ++i) y[i].bits = static_cast<uint16_t>(rounded_bf16_bits(x[i] / scale + zero_point) >> 16);
}

void quantize_float_f32_f16(const float* __restrict x, f16* __restrict y, size_t n, float scale, float zero_point) {
  const float offset = zero_point == 0 ? -0.0f : zero_point;  // v + -0 is v for every v, -0 included
  float buffer[kF16Buffer];
  for (size_t size; n; x += size, y += size, n -= size) {
    size = smaller(n, kF16Buffer);
    for (size_t i = 0; i < size; ++i) buffer[i] = within_f16(x[i] / scale + offset);
    cast_f32_f16(buffer, y, size);
  }
}

void dequantize_float_bf16_f32(const bf16* __restrict x, float* __restrict y, size_t n, float scale, float zero_point) {
  for (size_t i = 0; i < n; ++i) {
    y[i] = (bit_copy<float>(static_cast<uint32_t>(x[i].bits) << 16) - zero_point) * scale;
  }
}

void dequantize_float_f16_f32(const f16* __restrict x, float* __restrict y, size_t n, float scale, float zero_point) {
  for (size_t size; n; x += size, y += size, n -= size) {
    size = smaller(n, kF16Buffer);
    cast_f16_f32(x, y, size);
    for (size_t i = 0; i < size; ++i) y[i] = (y[i] - zero_point) * scale;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
