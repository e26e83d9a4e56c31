// Minimum, maximum and counts of special values (docs/numerics.md, "Ranges").
//
// Floats of one sign are ordered like their bits, so a vectorized pass over the explicit lanes of a chunk needs
// integers only: the largest bits as a signed number are the maximum, unless all values are negative; as an unsigned
// one, the minimum, unless none is; the least magnitude but for zero tells the rest, and whether there are subnormals.
// Seven instructions a vector, where minimum, maximum and three counts of floats took twelve. A chunk that holds
// something that is not finite is counted by a second, branching pass, one that holds subnormals by another loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/bits.inl.h"
#include "kernels/chunk.inl.h"
#include "numerics/range.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kRangeLanes =
    16;  // one vector of the widest instruction set, four of the narrowest: more would not stay in registers

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

// What the lanes of a chunk tell: the largest bits as a signed and as an unsigned number, the least magnitude minus
// one, so that zero comes last, and the number of values that are not zero.
struct Lanes {
  int32_t high[kRangeLanes];
  uint32_t most[kRangeLanes], least[kRangeLanes], nonzero[kRangeLanes];
};

inline Lanes lanes_of(const float* __restrict x, size_t n) {
  Lanes l;
  for (size_t j = 0; j < kRangeLanes; ++j) {
    l.high[j] = std::numeric_limits<int32_t>::min();
    l.most[j] = l.nonzero[j] = 0;
    l.least[j] = ~0u;
  }
  for (size_t i = 0; i < n; i += kRangeLanes) {
    for (size_t j = 0; j < kRangeLanes; ++j) {
      const uint32_t bits = bit_copy<uint32_t>(x[i + j]), magnitude = bits & kMagnitudeMask;
      l.high[j] = larger(l.high[j], static_cast<int32_t>(bits));
      l.most[j] = larger(l.most[j], bits);
      l.least[j] = smaller(l.least[j], magnitude - 1u);
      l.nonzero[j] += smaller(magnitude, 1u);
    }
  }
  for (size_t width = kRangeLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) {
      l.high[j] = larger(l.high[j], l.high[j + width]);
      l.most[j] = larger(l.most[j], l.most[j + width]);
      l.least[j] = smaller(l.least[j], l.least[j + width]);
      l.nonzero[j] += l.nonzero[j + width];
    }
  }
  return l;
}

inline int64_t count_subnormals(const float* __restrict x, size_t n, uint32_t smallest_normal) {
  uint32_t count = 0;
  for (size_t i = 0; i < n; ++i) count += (bit_copy<uint32_t>(x[i]) & kMagnitudeMask) - 1u < smallest_normal - 1u;
  return count;
}

// Whole lanes of a chunk; returns false when it met a value that is not finite, with r untouched.
inline bool finite_range(const float* __restrict x, size_t n, uint32_t smallest_normal, Range* r) {
  if (n == 0) return true;
  const Lanes l = lanes_of(x, n);
  const bool some_negative = l.most[0] > kMagnitudeMask, some_positive = l.high[0] >= 0;
  const uint32_t zero = static_cast<uint32_t>(n) - l.nonzero[0];
  if (l.high[0] >= static_cast<int32_t>(kInfinityBits) || l.most[0] >= (~kMagnitudeMask | kInfinityBits)) return false;
  const float nearest = zero ? 0.0f : bit_copy<float>(l.least[0] + 1u);
  const float low = some_negative ? bit_copy<float>(l.most[0]) : nearest;
  const float high = some_positive ? bit_copy<float>(l.high[0]) : -nearest;
  r->min = smaller(low, r->min);
  r->max = larger(high, r->max);
  r->zero += zero;
  if (l.least[0] < smallest_normal - 1u) r->subnormal += count_subnormals(x, n, smallest_normal);
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
