// Instance normalization as a bfloat16 NPU computes it (docs/numerics.md, "Instance normalization"): inputs rounded to
// bfloat16, sums in float32 one value after the other, the variance E[x^2] - E[x]^2 with a multiply-subtract that works
// on bfloat16 parts, every later step rounded to bfloat16.
//
// The order of the sums is part of the definition, so a single instance cannot be vectorized: up to 32 instances are
// summed side by side instead, turned a few columns at a time so that neighbours lie together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "kernels/cast_bf16.inl.h"

namespace quarkfast::QF_ISA {
namespace {

inline float to_bf16(float x) {
  return bit_copy<float>(rounded_bf16_bits(x) & 0xffff0000u);
}

inline int exponent_of(float x) {
  return static_cast<int>((bit_copy<uint32_t>(x) >> 23) & 0xffu);
}

// Rounds x to a multiple of the unit in the last place of 2^(exponent - 127), as an adder that aligns its operands to
// the largest exponent does.
inline float aligned(float x, int exponent) {
  const uint32_t sign = bit_copy<uint32_t>(x) & 0x80000000u;
  const float anchor = bit_copy<float>(sign | (static_cast<uint32_t>(exponent) << 23));
  return (x + anchor) - anchor;
}

inline int larger(int a, int b) {
  return a > b ? a : b;
}

// c + a * b with both terms aligned.
inline float multiply_add(float a, float b, float c) {
  const int exponent = larger(exponent_of(a) + exponent_of(b) - 127, exponent_of(c));
  return aligned(c, exponent) + aligned(a * b, exponent);
}

// c - a * b, with a and -b split into three bfloat16 parts each and their products added from the smallest to the
// largest.
inline float multiply_subtract(float a, float b, float c) {
  const float a0 = to_bf16(a), a1 = to_bf16(a - a0), a2 = to_bf16(a - a0 - a1);
  const float b0 = to_bf16(-b), b1 = to_bf16(-b - b0), b2 = to_bf16(-b - b0 - b1);
  float small = a2 * b2;
  small = multiply_add(a2, b1, small);
  small = multiply_add(a1, b2, small);
  small = multiply_add(a0, b2, small);
  small = multiply_add(a1, b1, small);
  small = multiply_add(a2, b0, small);
  small = multiply_add(a1, b0, small);
  small = multiply_add(a0, b1, small);
  const int exponent = larger(larger(exponent_of(a0) + exponent_of(b0) - 127, exponent_of(small)), exponent_of(c));
  return aligned(small, exponent) + aligned(c, exponent) + aligned(a0 * b0, exponent);
}

template <size_t kLanes>
struct Sums {
  float values[kLanes] = {}, squares[kLanes] = {};
};

// The square of a bfloat16 is exact in double, and in float32 where it does not underflow; there the sum of the two is
// rounded to float32 alike by both ways, because double has more than twice the digits of float32.
template <bool kTiny>
inline float add_square(float sum, float v) {
  if constexpr (kTiny) return static_cast<float>(static_cast<double>(sum) + static_cast<double>(v) * v);
  return sum + v * v;
}

template <size_t kLanes, size_t kSteps, bool kTiny>
inline void add_steps(const float* const* rows, size_t at, Sums<kLanes>& s) {
  float turned[kSteps][kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t j = 0; j < kSteps; ++j) turned[j][lane] = rows[lane][at + j];
  }
  for (size_t j = 0; j < kSteps; ++j) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float v = to_bf16(turned[j][lane]);
      s.values[lane] += v;
      s.squares[lane] = add_square<kTiny>(s.squares[lane], v);
    }
  }
}

template <size_t kLanes, bool kTiny>
inline void add_columns(const float* const* rows, size_t begin, size_t end, Sums<kLanes>& sums) {
  constexpr size_t kSteps = 8;
  Sums<kLanes> s = sums;
  for (; begin + kSteps <= end; begin += kSteps) add_steps<kLanes, kSteps, kTiny>(rows, begin, s);
  for (; begin < end; ++begin) add_steps<kLanes, 1, kTiny>(rows, begin, s);
  sums = s;
}

// Whether a value but zero lies below 2^-66: from 2^-67 on, squares of bfloat16 are whole multiples of 2^-149.
inline bool has_tiny(const float* x, size_t n) {
  uint32_t found = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t magnitude = bit_copy<uint32_t>(x[i]) & 0x7fffffffu;
    found |= magnitude - 1u < (61u << 23) - 1u ? 1u : 0u;
  }
  return found != 0;
}

template <size_t kLanes>
inline void instance_moments(const float* x, size_t instances, size_t n, InstanceMoments* m) {
  constexpr size_t kChunk = 512;  // columns whose rows stay in the second-level cache between the two looks at them
  const float* rows[kLanes];
  // Lanes beyond the last instance repeat it and are dropped.
  for (size_t lane = 0; lane < kLanes; ++lane) rows[lane] = x + smaller(lane, instances - 1) * n;
  Sums<kLanes> sums;
  for (size_t at = 0; at < n; at += kChunk) {
    const size_t end = smaller(at + kChunk, n);
    bool tiny = false;
    for (size_t lane = 0; lane < smaller(kLanes, instances); ++lane) tiny |= has_tiny(rows[lane] + at, end - at);
    tiny ? add_columns<kLanes, true>(rows, at, end, sums) : add_columns<kLanes, false>(rows, at, end, sums);
  }
  const float inverse_count = static_cast<float>(1.0 / static_cast<double>(n));
  for (size_t lane = 0; lane < smaller(kLanes, instances); ++lane) {
    const float mean = sums.values[lane] * inverse_count;
    m[lane] = {to_bf16(mean), multiply_subtract(mean, mean, sums.squares[lane] * inverse_count)};
  }
}

void instance_moments_f32(const float* x, size_t instances, size_t n, InstanceMoments* m) {
  size_t first = 0;
  for (; first + 32 <= instances; first += 32) instance_moments<32>(x + first * n, 32, n, m + first);
  for (; first < instances; first += 8) instance_moments<8>(x + first * n, instances - first, n, m + first);
}

void normalize_instance_f32(const float* x, float* y, size_t n, const InstanceNormalization& p) {
  const float inverse_deviation = to_bf16(p.inverse_deviation);
  const float mean = to_bf16(p.mean * inverse_deviation);
  const float gamma = to_bf16(p.gamma), beta = to_bf16(p.beta);
  for (size_t i = 0; i < n; ++i) {
    const float centered = to_bf16(to_bf16(to_bf16(x[i]) * inverse_deviation) - mean);
    y[i] = to_bf16(gamma * centered + beta);
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
