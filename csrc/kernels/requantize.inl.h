// Requantization of 32-bit sums to 8-bit codes: y = saturate(round(x * s) + z) with a float scale, and
// y = saturate(round(x / 2^s) + z) with a shift, as an NPU does (docs/numerics.md, "Requantization").
//
// The value is clamped to [qmin - z, qmax - z] before the zero point is added, so no sum overflows. Expected of the
// vectorizer: packed conversion and multiplication, or packed shifts (by a variable count from AVX2 up), narrowing
// store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "kernels/linear.inl.h"

namespace quarkfast::QF_ISA {
namespace {

template <class Q>
inline Q scaled(int32_t x, float scale, float low, float high, float zero_point) {
  return Narrow::code<Q>(clamped(static_cast<float>(x) * scale, low, high), zero_point);
}

// x / 2^shift for shift in [0, 31], rounded to nearest, without a sum that could overflow.
template <bool kHalfToEven>
inline int32_t shifted(int32_t x, int32_t shift) {
  const int32_t some = shift > 0;
  const int32_t quotient = x >> shift;
  const int32_t first_lost = (x >> (shift - some)) & some;  // the highest bit that falls off: a half or more
  if constexpr (kHalfToEven) {
    const auto lost = static_cast<uint32_t>(x) & ((uint32_t{1} << shift) - 1);
    const auto half = static_cast<uint32_t>(some) << (shift - some);
    return quotient + (first_lost & (static_cast<int32_t>(lost != half) | (quotient & 1)));
  }
  return quotient + first_lost;
}

template <bool kHalfToEven, class Q>
inline Q moved(int32_t x, int32_t shift, int32_t low, int32_t high, int32_t zero_point) {
  const int32_t v = shifted<kHalfToEven>(x, shift);
  return static_cast<Q>((v < low ? low : v > high ? high : v) + zero_point);
}

template <class Q>
void requantize_linear(const int32_t* __restrict x, Q* __restrict y, size_t runs, size_t n,
                       const float* __restrict scale, const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  for (size_t r = 0; r < runs; ++r, x += n, y += n) {
    const float s = scale[r], z = zero_point[r];
    const float low = static_cast<float>(qmin) - z, high = static_cast<float>(qmax) - z;
    for (size_t i = 0; i < n; ++i) y[i] = scaled<Q>(x[i], s, low, high, z);
  }
}

template <class Q>
void requantize_linear_channels(const int32_t* __restrict x, Q* __restrict y, size_t n, const float* __restrict scale,
                                const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  const auto low = static_cast<float>(qmin), high = static_cast<float>(qmax);
  for (size_t i = 0; i < n; ++i) {
    const float z = zero_point[i];
    y[i] = scaled<Q>(x[i], scale[i], low - z, high - z, z);
  }
}

template <bool kHalfToEven, class Q>
void requantize_shift(const int32_t* __restrict x, Q* __restrict y, size_t runs, size_t n,
                      const int32_t* __restrict shift, const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  for (size_t r = 0; r < runs; ++r, x += n, y += n) {
    const int32_t s = shift[r], z = zero_point[r];
    const auto low = static_cast<int32_t>(qmin) - z, high = static_cast<int32_t>(qmax) - z;
    for (size_t i = 0; i < n; ++i) y[i] = moved<kHalfToEven, Q>(x[i], s, low, high, z);
  }
}

template <bool kHalfToEven, class Q>
void requantize_shift_channels(const int32_t* __restrict x, Q* __restrict y, size_t n, const int32_t* __restrict shift,
                               const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  const auto low = static_cast<int32_t>(qmin), high = static_cast<int32_t>(qmax);
  for (size_t i = 0; i < n; ++i) {
    const int32_t z = zero_point[i];
    y[i] = moved<kHalfToEven, Q>(x[i], shift[i], low - z, high - z, z);
  }
}

template <class Q>
constexpr RequantizeKernels<Q> requantize_kernels() {
  return {{requantize_linear<Q>, requantize_linear_channels<Q>},
          {requantize_shift<false, Q>, requantize_shift_channels<false, Q>},
          {requantize_shift<true, Q>, requantize_shift_channels<true, Q>}};
}

}  // namespace
}  // namespace quarkfast::QF_ISA
