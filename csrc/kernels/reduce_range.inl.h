// Minimum, maximum and counts of non-finite values (docs/numerics.md, "Ranges").
//
// Work goes chunk by chunk: a vectorized pass over explicit lanes finds min, max and the largest magnitude as an
// integer. If that magnitude is finite the chunk has nothing else to tell; otherwise a second, branching pass counts.
// Explicit lanes, because without -ffast-math the compiler may not reorder a reduction of floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.inl.h"
#include "numerics/range.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kRangeLanes = 64;    // four vectors of the widest rung: enough to hide the latency of min and max
constexpr size_t kRangeChunk = 4096;  // 16 KiB: the second pass, where needed, reads from the first-level cache

constexpr uint32_t kMagnitudeMask = 0x7fffffffu;
constexpr uint32_t kInfinityBits = 0x7f800000u;

inline void count_values(const float* x, size_t n, Range* r) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = bit_copy<uint32_t>(x[i]), magnitude = bits & kMagnitudeMask;
    if (magnitude < kInfinityBits) {
      r->min = x[i] < r->min ? x[i] : r->min;
      r->max = x[i] > r->max ? x[i] : r->max;
    } else if (magnitude > kInfinityBits) {
      ++r->nan;
    } else {
      ++(bits == magnitude ? r->pos_inf : r->neg_inf);
    }
  }
}

// Whole lanes of a chunk; returns false when it met a value that is not finite, with r untouched.
inline bool finite_range(const float* __restrict x, size_t n, Range* r) {
  float low[kRangeLanes], high[kRangeLanes];
  uint32_t top[kRangeLanes];
  for (size_t j = 0; j < kRangeLanes; ++j) {
    low[j] = r->min;
    high[j] = r->max;
    top[j] = 0;
  }
  for (size_t i = 0; i < n; i += kRangeLanes) {
    for (size_t j = 0; j < kRangeLanes; ++j) {
      const float v = x[i + j];
      const uint32_t magnitude = bit_copy<uint32_t>(v) & kMagnitudeMask;
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      top[j] = magnitude > top[j] ? magnitude : top[j];
    }
  }
  for (size_t width = kRangeLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) {
      low[j] = low[j + width] < low[j] ? low[j + width] : low[j];
      high[j] = high[j + width] > high[j] ? high[j + width] : high[j];
      top[j] = top[j + width] > top[j] ? top[j + width] : top[j];
    }
  }
  if (top[0] >= kInfinityBits) return false;
  r->min = low[0];
  r->max = high[0];
  return true;
}

void reduce_range_f32(const float* x, size_t n, Range* r) {
  r->count += static_cast<int64_t>(n);
  size_t done = 0;
  while (done < n) {
    const size_t chunk = n - done < kRangeChunk ? n - done : kRangeChunk;
    const size_t whole = chunk / kRangeLanes * kRangeLanes;
    if (!finite_range(x + done, whole, r)) count_values(x + done, whole, r);
    count_values(x + done + whole, chunk - whole, r);
    done += chunk;
  }
  // One zero for both signs, so that the result does not depend on which of them came first.
  r->min = r->min == 0.0f ? 0.0f : r->min;
  r->max = r->max == 0.0f ? 0.0f : r->max;
}

}  // namespace
}  // namespace quarkfast::QF_ISA
