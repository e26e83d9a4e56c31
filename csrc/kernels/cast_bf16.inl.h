// bfloat16: the upper half of a float32, rounded half to even (docs/numerics.md, "bfloat16").
//
// Adding 0x7fff plus the lowest kept bit carries into the upper half exactly when round-half-to-even rounds up; a carry
// out of the largest finite value yields the bits of infinity. NaN must bypass the addition, which could turn it into
// infinity.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bits.inl.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

inline uint32_t rounded_bf16_bits(float x) {
  const uint32_t bits = bit_copy<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const uint32_t quiet_nan = (bits & 0x80000000u) | 0x7fc00000u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded;
}

void cast_f32_bf16(const float* __restrict x, bf16* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i].bits = static_cast<uint16_t>(rounded_bf16_bits(x[i]) >> 16);
}

void cast_bf16_f32(const bf16* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = bit_copy<float>(static_cast<uint32_t>(x[i].bits) << 16);
}

void round_trip_f32_bf16(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = bit_copy<float>(rounded_bf16_bits(x[i]) & 0xffff0000u);
}

// The magnitude limited to the largest finite bfloat16; NaN stays.
inline float within_bf16(float x) {
  constexpr uint32_t kLargest = 0x7f7f0000u;
  const uint32_t bits = bit_copy<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const bool beyond = magnitude > kLargest && magnitude <= 0x7f800000u;
  return bit_copy<float>(beyond ? kLargest | (bits & 0x80000000u) : bits);
}

void saturate_f32_bf16(const float* __restrict x, bf16* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i].bits = static_cast<uint16_t>(rounded_bf16_bits(within_bf16(x[i])) >> 16);
}

void saturate_round_trip_f32_bf16(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = bit_copy<float>(rounded_bf16_bits(within_bf16(x[i])) & 0xffff0000u);
}

}  // namespace
}  // namespace quarkfast::QF_ISA
