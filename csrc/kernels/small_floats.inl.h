// Casts between float32 and the floats of 8, 6 and 4 bits, one algorithm over a row of traits (docs/numerics.md, "Small
// floats").
//
// Encoding: the spacing of codes at a value is 2^-mantissa_bits times its power of two, but not finer than that of the
// subnormals. Adding 2^23 times the spacing makes the processor round half to even to it and leaves the significand, in
// units of the spacing, in the low bits of the sum. Decoding: normal codes are float32 with another bias; a subnormal
// code is read as if it had the implicit one, which is then taken away.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "numerics/small_floats.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr uint32_t kFloatNan = 0x7fc00000u;
constexpr uint32_t kFloatSign = 0x80000000u;

// The constants of one format as float32 bits.
template <class T>
struct SmallFloatBits {
  static constexpr SmallFloat kF = T::kFormat;
  static constexpr uint32_t kOne = static_cast<uint32_t>(127 - kF.bias) << 23;  // 2^-bias
  static constexpr uint32_t kLeast = kOne + (1u << 23);                         // the smallest normal value
  static constexpr uint32_t kUp = static_cast<uint32_t>(23 - kF.mantissa_bits) << 23;
  static constexpr uint32_t kLargest = kOne + (kF.largest_code << (23 - kF.mantissa_bits));
  // Far enough above the largest value to round to an overflow, low enough for the addition.
  static constexpr uint32_t kCeiling = (kLargest & kFloatInfinity) + (1u << 23);
};

template <class T>
inline float decoded(uint8_t byte) {
  using B = SmallFloatBits<T>;
  constexpr uint32_t kSign = 1u << (B::kF.bits - 1);
  const uint32_t all = byte, code = all & (kSign - 1u), sign = (all & kSign) << (32 - B::kF.bits);
  const uint32_t subnormal = code < (1u << B::kF.mantissa_bits) ? 1u << 23 : 0u;
  const uint32_t shifted = (code << (23 - B::kF.mantissa_bits)) + B::kOne + subnormal;
  const float value = bit_copy<float>(shifted) - bit_copy<float>(subnormal ? B::kLeast : 0u);
  uint32_t bits = bit_copy<uint32_t>(value) | sign;
  if constexpr (B::kF.unsigned_zero) {
    bits = all == kSign ? kFloatSign | kFloatNan : bits;
  } else if constexpr (B::kF.nan_code != kNoNan) {
    constexpr bool kHasInfinity = B::kF.overflow_code != B::kF.nan_code;
    bits = code > B::kF.largest_code ? sign | kFloatNan : bits;
    if constexpr (kHasInfinity) bits = code == B::kF.overflow_code ? sign | kFloatInfinity : bits;
  }
  return bit_copy<float>(bits);
}

template <class T, bool kSaturate>
inline uint8_t encoded(float x) {
  using B = SmallFloatBits<T>;
  constexpr uint32_t kOverflow = kSaturate ? B::kF.largest_code : B::kF.overflow_code;
  const uint32_t bits = bit_copy<uint32_t>(x), magnitude = bits & ~kFloatSign;
  const uint32_t a = magnitude < B::kCeiling ? magnitude : B::kCeiling;
  const uint32_t exponent = larger(a & kFloatInfinity, B::kLeast), magic = exponent + B::kUp;
  const uint32_t significand = bit_copy<uint32_t>(bit_copy<float>(a) + bit_copy<float>(magic)) - magic;
  uint32_t code = ((exponent - B::kLeast) >> (23 - B::kF.mantissa_bits)) + significand;
  uint32_t sign = (bits >> 31) << (B::kF.bits - 1);
  code = code > B::kF.largest_code ? kOverflow : code;
  if constexpr (B::kF.nan_code == kNoNan) {
    code = magnitude > kFloatInfinity ? 0u : code;
    sign ^= magnitude > kFloatInfinity ? 1u << (B::kF.bits - 1) : 0u;
  } else {
    code = magnitude > kFloatInfinity ? B::kF.nan_code : code;
  }
  if constexpr (B::kF.unsigned_zero) sign = (code & 0x7fu) ? sign : 0u;
  return static_cast<uint8_t>(code | sign);
}

// decoded(encoded(x)) without the code in between.
template <class T, bool kSaturate>
inline float rounded_small(float x) {
  using B = SmallFloatBits<T>;
  const uint32_t bits = bit_copy<uint32_t>(x), magnitude = bits & ~kFloatSign;
  uint32_t sign = bits & kFloatSign;
  const uint32_t a = magnitude < B::kCeiling ? magnitude : B::kCeiling;
  const float magic = bit_copy<float>(larger(a & kFloatInfinity, B::kLeast) + B::kUp);
  uint32_t result = bit_copy<uint32_t>((bit_copy<float>(a) + magic) - magic);
  constexpr bool kHasInfinity = B::kF.nan_code != kNoNan && B::kF.overflow_code != B::kF.nan_code;
  constexpr bool kToLargest = kSaturate || B::kF.nan_code == kNoNan;
  constexpr uint32_t kOverflow = kToLargest ? B::kLargest : kHasInfinity ? kFloatInfinity : kFloatNan;
  result = result > B::kLargest ? kOverflow : result;
  if constexpr (B::kF.nan_code == kNoNan) {
    result = magnitude > kFloatInfinity ? 0u : result;
    sign ^= magnitude > kFloatInfinity ? kFloatSign : 0u;
  } else {
    result = magnitude > kFloatInfinity ? kFloatNan : result;
  }
  if constexpr (B::kF.unsigned_zero) {
    sign = result ? sign : 0u;
    sign = result > kFloatInfinity ? kFloatSign : sign;
  }
  return bit_copy<float>(result | sign);
}

// e8m0: the nearest power of two. Half way is rounded up, but subnormals up to 2^-127 become 2^-127 (as in
// ml_dtypes, where the code 0 stands for the subnormals). Zero and negative values become NaN.
template <bool kSaturate>
inline uint32_t e8m0_code(float x) {
  const uint32_t bits = bit_copy<uint32_t>(x);
  const uint32_t up = bits < 0x00800000u ? 0x003fffffu : 0x00400000u;
  uint32_t code = (bits + up) >> 23;
  if constexpr (kSaturate) code = code > 254u ? 254u : code;
  constexpr uint32_t kHighest = kSaturate ? kFloatInfinity : kFloatInfinity - 1u;
  return bits - 1u >= kHighest ? 255u : code;  // the subtraction sends zero above everything
}

inline float e8m0_value(uint32_t code) {
  const uint32_t bits = code ? code << 23 : 0x00400000u;
  return bit_copy<float>(code == 255u ? kFloatNan : bits);
}

template <class T, bool kSaturate>
void cast_f32_small(const float* __restrict x, T* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i].bits = encoded<T, kSaturate>(x[i]);
}

template <class T>
void cast_small_f32(const T* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = decoded<T>(x[i].bits);
}

template <class T, bool kSaturate>
void round_trip_f32_small(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = rounded_small<T, kSaturate>(x[i]);
}

template <bool kSaturate>
void cast_f32_e8m0fnu(const float* __restrict x, e8m0fnu* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i].bits = static_cast<uint8_t>(e8m0_code<kSaturate>(x[i]));
}

void cast_e8m0fnu_f32(const e8m0fnu* __restrict x, float* __restrict y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = e8m0_value(x[i].bits);
}

template <bool kSaturate>
void round_trip_f32_e8m0fnu(const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = e8m0_value(e8m0_code<kSaturate>(x[i]));
}

template <class T>
constexpr SmallFloatKernels<T> small_float_kernels() {
  return {cast_f32_small<T, false>, cast_f32_small<T, true>, cast_small_f32<T>, round_trip_f32_small<T, false>,
          round_trip_f32_small<T, true>};
}

}  // namespace
}  // namespace quarkfast::QF_ISA
