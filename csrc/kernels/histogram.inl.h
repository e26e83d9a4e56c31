// Dyadic histograms (docs/numerics.md, "Histograms").
//
// Per chunk: the range, which tells whether bins must widen first; the bin of every value, in a vectorized pass; then
// the counting, which no vector unit helps with. Measured (GCC 12, Zen 4, in cache, per value on the widest rung):
// range 0.05 ns, bins 0.15, counting 0.27, one increment a cycle. Bins are kept as 32-bit indices: 16-bit ones halve
// the buffer but make the compiler narrow early and blend twice (0.24 against 0.15 ns on AVX2). Two sets of counters;
// one is slower as soon as neighbours are equal, four are slower always, because 32 KiB of counters push the data out
// of the cache. Zeros, half of what a ReLU leaves, would all wait for one counter: they go to 32 spare ones in turn,
// unread, since the range has counted them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.inl.h"
#include "chunk.inl.h"
#include "numerics/histogram.h"
#include "numerics/range.h"
#include "reduce_range.inl.h"

namespace quarkfast::QF_ISA {
namespace {

inline uint32_t largest_magnitude(const Range& r) {
  if (!(r.min <= r.max)) return 0;
  const uint32_t low = bit_copy<uint32_t>(r.min) & kMagnitudeMask, high = bit_copy<uint32_t>(r.max) & kMagnitudeMask;
  return low > high ? low : high;
}

// Index of a finite value; reciprocal = 2^-width. The product is exact, or below one where it underflows.
inline int32_t bin_of(uint32_t bits, float reciprocal) {
  const auto bin = static_cast<int32_t>(bit_copy<float>(bits & kMagnitudeMask) * reciprocal);
  const int32_t sign = bit_copy<int32_t>(bits) >> 31;  // all ones for negative values
  return (bin ^ sign) + kHistogramSide;
}

// At most kChunk values. 32-bit counting, because the spare counter of position i is part of the vectors.
inline void find_bins(const float* __restrict x, uint32_t* __restrict bins, size_t n, float reciprocal) {
  const auto end = static_cast<int32_t>(n);
  for (int32_t i = 0; i < end; ++i) {
    const uint32_t bits = bit_copy<uint32_t>(x[i]);
    const bool special = (bits & kMagnitudeMask) - 1u >= kInfinityBits - 1u;  // zero, infinite or NaN
    const int32_t spare = kHistogramBins + (i & static_cast<int32_t>(kHistogramSpare - 1));
    bins[i] = static_cast<uint32_t>(special ? spare : bin_of(special ? 0u : bits, reciprocal));
  }
}

inline void count_bins(const uint32_t* __restrict bins, size_t n, uint16_t* __restrict even, uint16_t* __restrict odd) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t j = 0; j < 8; j += 2) {
      ++even[bins[i + j]];
      ++odd[bins[i + j + 1]];
    }
  }
  for (; i < n; ++i) ++even[bins[i]];
}

inline void widen_counters(HistogramCounters* c, int32_t width) {
  for (uint16_t* lane : c->lanes) merge_bins(lane, width - c->width);
  c->width = width;
}

// The range of at most kHistogramBlock values into *r, and their bins into *c, which fold_histogram has emptied. c
// starts at the width it has, which should be that of the histogram to fold into, and grows where it must.
template <class T>
void count_histogram(const T* x, size_t n, Range* r, HistogramCounters* c) {
  uint32_t bins[kChunk];
  bool empty = true;
  for_chunks(x, n, [&](const float* values, size_t size) {
    Range chunk;
    chunk_range(values, size, kSmallestNormal<T>, &chunk);
    const int32_t width = histogram_width(largest_magnitude(chunk));
    if (width > c->width && empty) c->width = width;
    if (width > c->width) widen_counters(c, width);
    const float reciprocal = bit_copy<float>(reciprocal_width_bits(c->width));
    if (chunk.min == chunk.max && finite(chunk) == static_cast<int64_t>(size)) {
      // A constant chunk would wait for its one counter at every value.
      if (chunk.zero == 0) {
        uint16_t& count = c->lanes[0][bin_of(bit_copy<uint32_t>(chunk.min), reciprocal)];
        count = static_cast<uint16_t>(count + size);
      }
    } else {
      find_bins(values, bins, size, reciprocal);
      count_bins(bins, size, c->lanes[0], c->lanes[1]);
    }
    empty = false;
    merge(*r, chunk);
  });
}

// Adds the counters, filled from values of range r, to the counts of a histogram of the same width, and empties them.
void fold_histogram(HistogramCounters* c, const Range& r, uint64_t* counts) {
  counts[kHistogramSide] += static_cast<uint64_t>(r.zero);
  if (!(r.min <= r.max)) return;
  const float reciprocal = bit_copy<float>(reciprocal_width_bits(c->width));
  const auto first = static_cast<size_t>(bin_of(bit_copy<uint32_t>(r.min), reciprocal));
  const auto last = static_cast<size_t>(bin_of(bit_copy<uint32_t>(r.max), reciprocal));
  uint16_t* __restrict even = c->lanes[0];
  uint16_t* __restrict odd = c->lanes[1];
  for (size_t i = first; i <= last; ++i) {
    counts[i] += static_cast<uint32_t>(even[i]) + odd[i];
    even[i] = odd[i] = 0;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
