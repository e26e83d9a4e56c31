// Casts to and from float16 (docs/numerics.md, "float16"): whole vectors by the processor's own conversions where the
// instruction set has them, the rest by integer code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert_f16.inl.h"
#include "kernels/f16_bits.inl.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

void cast_f32_f16(const float* __restrict x, f16* __restrict y, size_t n) {
  const size_t whole = n / kF16Lanes * kF16Lanes;
  for (size_t i = 0; i < whole; i += kF16Lanes) narrow_lanes(x + i, y + i);
  for (size_t i = whole; i < n; ++i) y[i].bits = f16_bits(x[i]);
}

void cast_f16_f32(const f16* __restrict x, float* __restrict y, size_t n) {
  const size_t whole = n / kF16Lanes * kF16Lanes;
  for (size_t i = 0; i < whole; i += kF16Lanes) widen_lanes(x + i, y + i);
  for (size_t i = whole; i < n; ++i) y[i] = f16_value(x[i].bits);
}

void round_trip_f32_f16(const float* x, float* y, size_t n) {
  const size_t whole = n / kF16Lanes * kF16Lanes;
  for (size_t i = 0; i < whole; i += kF16Lanes) round_lanes(x + i, y + i);
  for (size_t i = whole; i < n; ++i) y[i] = f16_value(f16_bits(x[i]));
}

// Limited to the finite float16 values; NaN fails both comparisons and stays.
inline float within_f16(float x) {
  x = x > 65504.0f ? 65504.0f : x;
  return x < -65504.0f ? -65504.0f : x;
}

// Values that are computed in plain loops before, or after, they are converted, while they stay in the first-level
// cache.
constexpr size_t kF16Buffer = 1024;

void saturate_f32_f16(const float* __restrict x, f16* __restrict y, size_t n) {
  float buffer[kF16Buffer];
  for (size_t size; n; x += size, y += size, n -= size) {
    size = smaller(n, kF16Buffer);
    for (size_t i = 0; i < size; ++i) buffer[i] = within_f16(x[i]);
    cast_f32_f16(buffer, y, size);
  }
}

void saturate_round_trip_f32_f16(const float* x, float* y, size_t n) {
  float buffer[kF16Buffer];
  for (size_t size; n; x += size, y += size, n -= size) {
    size = smaller(n, kF16Buffer);
    for (size_t i = 0; i < size; ++i) buffer[i] = within_f16(x[i]);
    round_trip_f32_f16(buffer, y, size);
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
