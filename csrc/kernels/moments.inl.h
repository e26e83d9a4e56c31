// Sums and sums of squares without rounding (docs/numerics.md, "Moments").
//
// The values of a chunk whose exponents span at most 20 are whole multiples of one unit, below 2^44 of them. Split into
// a high and a low half they have squares and products below 2^45, of which 256 add up exactly in a float64. That takes
// 12 vector instructions for 8 values, where counting every value by its exponent in memory takes two updates each
// (measured, GCC 12, Cascade Lake, in cache: see docs/benchmarks.md). Values far below the largest of their chunk, and
// chunks with NaN, infinities or nothing but tiny values, are counted by exponent. NaN and infinities gather under
// exponent 255, which nobody reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bits.inl.h"
#include "kernels/chunk.inl.h"
#include "numerics/moments.h"
#include "numerics/rounding.h"

namespace quarkfast::QF_ISA {
namespace {

static_assert(kChunk == kMomentsChunk);

constexpr size_t kWindowLanes = 16;
constexpr int32_t kWindowSpan = 20;  // below this many octaves the unit is too coarse
static_assert(kLeastWindow > kWindowSpan);

inline double power_of_two(int32_t exponent) {
  return bit_copy<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

inline void add_moment(float x, ExponentSums::Entry* lane) {
  const uint32_t bits = bit_copy<uint32_t>(x);
  const uint32_t implicit = (bits & kInfinityBits) ? 0x00800000u : 0u;
  const uint64_t significand = (bits & 0x007fffffu) | implicit;
  ExponentSums::Entry& entry = lane[bits >> 23];
  entry.sum += significand;
  entry.square += significand * significand;
}

// Counts values of magnitudes below `limit` (bits) by exponent.
inline void count_below(const float* x, size_t n, uint32_t limit, ExponentSums* sums) {
  if (!sums->lanes_used) std::memset(sums->lanes, 0, sizeof(sums->lanes));
  sums->lanes_used = true;
  for (size_t i = 0; i < n; ++i) {
    if ((bit_copy<uint32_t>(x[i]) & kMagnitudeMask) < limit) add_moment(x[i], sums->lanes[i % kMomentsLanes]);
  }
}

// The sums of a window, in lanes of whole float64 numbers.
struct WindowLanes {
  double sum[kWindowLanes] = {}, high[kWindowLanes] = {}, cross[kWindowLanes] = {}, low[kWindowLanes] = {};
};

// Adds whole lanes; `magic` rounds to a multiple of 2^kLowBits units when added and subtracted.
inline void add_lanes(const float* __restrict x, size_t n, double magic, WindowLanes* __restrict lanes) {
  WindowLanes l = *lanes;
  for (size_t i = 0; i < n; i += kWindowLanes) {
#pragma GCC unroll 1
    for (size_t j = 0; j < kWindowLanes; ++j) {
      const double v = x[i + j], high = (v + magic) - magic, low = v - high;
      l.sum[j] += v;
      l.high[j] += high * high;
      l.cross[j] += high * low;
      l.low[j] += low * low;
    }
  }
  *lanes = l;
}

// Copies values with a zero for each magnitude below the limit; returns the largest of those.
inline uint32_t copy_fitting(const float* __restrict x, float* __restrict fitting, size_t n, uint32_t limit) {
  uint32_t left = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = bit_copy<uint32_t>(x[i]), magnitude = bits & kMagnitudeMask;
    const uint32_t fits = -static_cast<uint32_t>(magnitude >= limit);  // a select would become a branch
    left = larger(left, magnitude & ~fits);
    fitting[i] = bit_copy<float>(bits & fits);
  }
  return left;
}

inline int64_t total(const double* lanes, double unit) {
  int64_t sum = 0;
  for (size_t j = 0; j < kWindowLanes; ++j) sum += static_cast<int64_t>(lanes[j] * unit);
  return sum;
}

inline void add_window(const float* x, size_t n, uint32_t top, ExponentSums* sums) {
  const auto exponent = static_cast<int32_t>(top >> 23);
  const uint32_t limit = static_cast<uint32_t>(exponent - kWindowSpan) << 23;
  const double magic = kRoundF64 * power_of_two(exponent - kWindowBits + kLowBits);
  float fitting[kChunk + kWindowLanes];
  const uint32_t left = copy_fitting(x, fitting, n, limit);
  for (size_t j = 0; j < kWindowLanes; ++j) fitting[n + j] = 0.0f;
  WindowLanes lanes;
  add_lanes(fitting, (n + kWindowLanes - 1) / kWindowLanes * kWindowLanes, magic, &lanes);
  const double low = power_of_two(kWindowBits - exponent), high = power_of_two(kWindowBits - kLowBits - exponent);
  sums->windows[sums->windows_used++] = {exponent, total(lanes.sum, low), total(lanes.high, high * high),
                                         total(lanes.cross, high * low), total(lanes.low, low * low)};
  if (left) count_below(x, n, limit, sums);
}

// Adds at most kMomentsBlock values to fresh sums.
template <class T>
void sum_moments(const T* x, size_t n, ExponentSums* sums) {
  for_chunks(x, n, [sums](const float* values, size_t size) {
    uint32_t top = 0;
    for (size_t i = 0; i < size; ++i) top = larger(top, bit_copy<uint32_t>(values[i]) & kMagnitudeMask);
    if (top >= static_cast<uint32_t>(kLeastWindow) << 23 && top < kInfinityBits) {
      add_window(values, size, top, sums);
    } else if (top) {
      count_below(values, size, ~0u, sums);
    }
  });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
