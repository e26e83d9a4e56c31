// Minimum, maximum and counts of special values (docs/numerics.md, "Ranges").
//
// A vectorized pass over the explicit lanes of a chunk finds min, max, the largest magnitude as an integer, and counts
// zeros and subnormals. If that magnitude is finite the chunk has nothing else to tell; otherwise a second, branching
// pass counts. Explicit lanes, because without -ffast-math the compiler may not reorder a reduction of floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.inl.h"
#include "chunk.inl.h"
#include "numerics/range.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kRangeLanes = 64;  // four vectors of the widest rung: enough to hide the latency of min and max

inline void count_values(const float* x, size_t n, uint32_t smallest_normal, Range* r) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = bit_copy<uint32_t>(x[i]), magnitude = bits & kMagnitudeMask;
    if (magnitude < kInfinityBits) {
      r->min = x[i] < r->min ? x[i] : r->min;
      r->max = x[i] > r->max ? x[i] : r->max;
      r->zero += magnitude == 0;
      r->subnormal += magnitude - 1 < smallest_normal - 1;
    } else if (magnitude > kInfinityBits) {
      ++r->nan;
    } else {
      ++(bits == magnitude ? r->pos_inf : r->neg_inf);
    }
  }
}

// Whole lanes of a chunk; returns false when it met a value that is not finite, with r untouched.
inline bool finite_range(const float* __restrict x, size_t n, uint32_t smallest_normal, Range* r) {
  float low[kRangeLanes], high[kRangeLanes];
  uint32_t top[kRangeLanes], zero[kRangeLanes], tiny[kRangeLanes];
  for (size_t j = 0; j < kRangeLanes; ++j) {
    low[j] = r->min;
    high[j] = r->max;
    top[j] = zero[j] = tiny[j] = 0;
  }
  for (size_t i = 0; i < n; i += kRangeLanes) {
    for (size_t j = 0; j < kRangeLanes; ++j) {
      const float v = x[i + j];
      const uint32_t magnitude = bit_copy<uint32_t>(v) & kMagnitudeMask;
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      top[j] = magnitude > top[j] ? magnitude : top[j];
      zero[j] += magnitude == 0;
      tiny[j] += magnitude < smallest_normal;
    }
  }
  for (size_t width = kRangeLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) {
      low[j] = low[j + width] < low[j] ? low[j + width] : low[j];
      high[j] = high[j + width] > high[j] ? high[j + width] : high[j];
      top[j] = top[j + width] > top[j] ? top[j + width] : top[j];
      zero[j] += zero[j + width];
      tiny[j] += tiny[j + width];
    }
  }
  if (top[0] >= kInfinityBits) return false;
  r->min = low[0];
  r->max = high[0];
  r->zero += zero[0];
  r->subnormal += tiny[0] - zero[0];
  return true;
}

// One chunk of at most kChunk values.
inline void chunk_range(const float* x, size_t n, uint32_t smallest_normal, Range* r) {
  const size_t whole = n / kRangeLanes * kRangeLanes;
  if (!finite_range(x, whole, smallest_normal, r)) count_values(x, whole, smallest_normal, r);
  count_values(x + whole, n - whole, smallest_normal, r);
  r->count += static_cast<int64_t>(n);
  // One zero for both signs, so that the result does not depend on which of them came first.
  r->min = r->min == 0.0f ? 0.0f : r->min;
  r->max = r->max == 0.0f ? 0.0f : r->max;
}

template <class T>
void reduce_range(const T* x, size_t n, Range* r) {
  for_chunks(x, n, [r](const float* values, size_t size) { chunk_range(values, size, kSmallestNormal<T>, r); });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
