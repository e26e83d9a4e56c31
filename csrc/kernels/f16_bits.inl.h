// float16 (IEEE 754 binary16) by plain integer code, round half to even (docs/numerics.md, "float16").
//
// Normal results: re-bias the exponent and round at bit 13 by the same carry as bfloat16; values from 65520 up carry
// into the bits of infinity by themselves. Subnormal results: adding 0.5 aligns the value to steps of 2^-24, the
// spacing of float16 subnormals, so the hardware's own rounding does the work.
#pragma once

#include <cstdint>

#include "kernels/bits.inl.h"

namespace quarkfast::QF_ISA {
namespace {

inline uint16_t f16_bits(float x) {
  const uint32_t bits = bit_copy<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr uint32_t kOverflow = 0x47800000u;        // 2^16: beyond the carry into infinity
  constexpr uint32_t kInfinity = 0x7f800000u;
  constexpr uint32_t kRebias = 112u << 23;  // 127 - 15
  const uint32_t normal = (magnitude - kRebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal = bit_copy<uint32_t>(bit_copy<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t quiet_nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kOverflow ? 0x7c00u : result;
  result = magnitude > kInfinity ? quiet_nan : result;
  return static_cast<uint16_t>(sign | result);
}

inline float f16_value(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // Subnormals and zero: magnitude * 2^-24 is exact in float32.
  const uint32_t small = bit_copy<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  // The borrow of the subtraction tells NaN from infinity; a third comparison would keep GCC 12 from vectorizing.
  const uint32_t quiet = (0x7c00u - magnitude) >> 31 << 22;
  const uint32_t special = (magnitude << 13) | 0x7f800000u | quiet;
  uint32_t result = magnitude < 0x0400u ? small : normal;
  result = magnitude >= 0x7c00u ? special : result;
  return bit_copy<float>(sign | result);
}

}  // namespace
}  // namespace quarkfast::QF_ISA
