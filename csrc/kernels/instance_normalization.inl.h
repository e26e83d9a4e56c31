// Instance normalization as a bfloat16 NPU computes it (docs/numerics.md, "Instance normalization"): inputs rounded to
// bfloat16, sums in float32 one value after the other, the variance E[x^2] - E[x]^2 with a multiply-subtract that works
// on bfloat16 parts, every later step rounded to bfloat16.
//
// The order of the sums is part of the definition, so a single instance cannot be vectorized: eight instances are
// summed side by side instead, which hides the latency of the additions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.inl.h"
#include "cast_bf16.inl.h"
#include "kernels.h"

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

void instance_moments_f32(const float* x, size_t instances, size_t n, InstanceMoments* m) {
  constexpr size_t kLanes = 8;
  for (size_t first = 0; first < instances; first += kLanes) {
    const float* rows[kLanes];
    float sum[kLanes] = {}, square_sum[kLanes] = {};
    for (size_t lane = 0; lane < kLanes; ++lane) {
      // Lanes beyond the last instance repeat it and are dropped.
      rows[lane] = x + (first + lane < instances ? first + lane : instances - 1) * n;
    }
    for (size_t i = 0; i < n; ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float v = to_bf16(rows[lane][i]);
        sum[lane] += v;
        // The square of a bfloat16 is exact in double; only its sum is rounded to float32.
        square_sum[lane] = static_cast<float>(static_cast<double>(square_sum[lane]) + static_cast<double>(v) * v);
      }
    }
    const float inverse_count = static_cast<float>(1.0 / static_cast<double>(n));
    for (size_t lane = 0; lane < kLanes && first + lane < instances; ++lane) {
      const float mean = sum[lane] * inverse_count;
      m[first + lane] = {to_bf16(mean), multiply_subtract(mean, mean, square_sum[lane] * inverse_count)};
    }
  }
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
