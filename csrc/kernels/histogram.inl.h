// Dyadic histograms (docs/numerics.md, "Histograms").
//
// Per chunk: the range, which tells whether bins must widen first; then, 128 values at a time, their bins in vectors
// and the counting, which no vector unit helps with: a processor that waits for counters finds the next bins meanwhile
// (measured, GCC 12, Cascade Lake, in cache, both passes over a whole chunk against 128 values: 0.96 against 0.89 ns a
// value on AVX-512, 1.24 against 0.94 on AVX2). Loops that the compiler unrolls wholly read the bins from vector
// registers instead of memory, which is slower (1.4 ns). While a chunk is counted, memory has time to bring the next
// one. Two sets of counters; one is slower as soon as neighbours are equal, four are slower always, because 32 KiB of
// counters push the data out of the cache. Zeros, half of what a ReLU leaves, would all wait for one counter, and the
// range has counted them. AVX-512 closes the gaps that they leave in a vector of bins, which no compiler finds in a
// loop (0.56 instead of 0.90 ns a value behind a ReLU); elsewhere they go to 32 spare counters in turn, unread.
//
// Bins are counted one turn after they are found: a bin that is read while the vectors over it, which overlap, are
// still in the store buffer waits for these (Zen 5, AVX-512: 0.74 ns a value behind a ReLU at once and 0.33 a turn
// later, 0.40 and 0.36 where no value is zero).
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/bits.inl.h"
#include "kernels/chunk.inl.h"
#include "kernels/reduce_range.inl.h"
#include "numerics/histogram.h"
#include "numerics/range.h"

namespace quarkfast::QF_ISA {
namespace {

inline uint32_t largest_magnitude(const Range& r) {
  if (!(r.min <= r.max)) return 0;
  const uint32_t low = bit_copy<uint32_t>(r.min) & kMagnitudeMask, high = bit_copy<uint32_t>(r.max) & kMagnitudeMask;
  return low > high ? low : high;
}

// Values whose bins are found together, in vectors, before they are counted.
constexpr size_t kTogether = 128;
constexpr size_t kUnrolled = 8;

// Index of a finite value, counted from zero outwards; reciprocal = 2^-exponent. The product is exact, or below one
// where it underflows, and cut towards zero.
inline int32_t bin_of(float x, float reciprocal) {
  return static_cast<int32_t>(x * reciprocal) + (bit_copy<int32_t>(x) >> 31);
}

// Bins of kTogether finite values, none of them zero; returns how many bins it wrote.
struct PlainBins {
  float reciprocal;

  size_t operator()(const float* __restrict x, int32_t* __restrict bins) const {
    for (size_t i = 0; i < kTogether; ++i) bins[i] = bin_of(x[i], reciprocal);
    return kTogether;
  }
};

#if defined(__AVX512F__)

// Bins of those of kTogether values that are finite and not zero, one behind the other, and a vector of spare counters.
struct AllBins {
  float reciprocal;

  size_t operator()(const float* __restrict x, int32_t* __restrict bins) const {
    const __m512i magnitudes = _mm512_set1_epi32(static_cast<int32_t>(kMagnitudeMask)), one = _mm512_set1_epi32(1),
                  specials = _mm512_set1_epi32(static_cast<int32_t>(kInfinityBits - 1u));
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t found = 0;
    for (size_t i = 0; i < kTogether; i += 16) {
      const __m512 values = _mm512_loadu_ps(x + i);
      const __m512i bits = _mm512_castps_si512(values);
      const __mmask16 counted =
          _mm512_cmplt_epu32_mask(_mm512_sub_epi32(_mm512_and_si512(bits, magnitudes), one), specials);
      const __m512i magnitude = _mm512_maskz_cvttps_epi32(counted, _mm512_mul_ps(values, _mm512_set1_ps(reciprocal)));
      const __m512i bin = _mm512_add_epi32(magnitude, _mm512_maskz_srai_epi32(counted, bits, 31));
      _mm512_storeu_si512(bins + found, _mm512_maskz_compress_epi32(counted, bin));
      found += static_cast<size_t>(_mm_popcnt_u32(counted));
    }
    _mm512_storeu_si512(bins + found, _mm512_add_epi32(lanes, _mm512_set1_epi32(kHistogramSide)));
    return found;
  }
};

#else

// Bins of any kTogether values; those that are zero or not finite get the spare counters in turn.
struct AllBins {
  float reciprocal;

  size_t operator()(const float* __restrict x, int32_t* __restrict bins) const {
    for (int32_t i = 0; i < static_cast<int32_t>(kTogether); ++i) {
      const auto bits = bit_copy<uint32_t>(x[i]);
      // A mask, because the compiler makes a branch of a choice here: 6.6 ns a value behind a ReLU instead of 0.9.
      const int32_t special = -static_cast<int32_t>((bits & kMagnitudeMask) - 1u >= kInfinityBits - 1u);
      const int32_t spare = kHistogramSide + (i & static_cast<int32_t>(kHistogramSpare - 1));
      const int32_t bin = bin_of(bit_copy<float>(bits & ~static_cast<uint32_t>(special)), reciprocal);
      bins[i] = (spare & special) | (bin & ~special);
    }
    return kTogether;
  }
};

#endif

// The bins of n values, or of a few more in spare counters up to a multiple of kUnrolled.
inline void tally(const int32_t* __restrict bins, size_t n, uint16_t* __restrict even, uint16_t* __restrict odd) {
#pragma GCC unroll 1
  for (size_t j = 0; j < n; j += kUnrolled) {
    for (size_t k = j; k < j + kUnrolled; k += 2) {
      ++even[bins[k]];
      ++odd[bins[k + 1]];
    }
  }
}

// At most kChunk values. The counters of bin zero are at even and odd.
template <class Bins>
inline void count_bins(const float* __restrict x, size_t n, const Bins& find, uint16_t* __restrict even,
                       uint16_t* __restrict odd) {
  int32_t bins[2][kTogether + 16];
  size_t i = 0, turn = 0, before = 0;
  for (; i + kTogether <= n; i += kTogether, turn ^= 1) {
    for (size_t j = 0; j < kTogether; j += 16) prefetch(x + i + j + kChunk);
    const size_t found = find(x + i, bins[turn]);
    tally(bins[turn ^ 1], before, even, odd);
    before = found;
  }
  tally(bins[turn ^ 1], before, even, odd);
  if (i == n) return;
  float rest[kTogether] = {};
  for (size_t j = 0; j < n - i; ++j) rest[j] = x[i + j];
  const size_t found = smaller(find(rest, bins[turn]), n - i);
  for (size_t j = 0; j < found; ++j) ++even[bins[turn][j]];
}

inline void widen_counters(HistogramCounters* c, int32_t exponent) {
  for (uint16_t* lane : c->lanes) merge_bins(lane, exponent - c->exponent);
  c->exponent = exponent;
}

// The range of at most kHistogramBlock values into *r, and their bins into *c, which fold_histogram has emptied. c
// starts at the exponent it has, which should be that of the histogram to fold into, and grows where it must.
template <class T>
void count_histogram(const T* x, size_t n, Range* r, HistogramCounters* c) {
  uint16_t* const even = c->lanes[0] + kHistogramSide;
  uint16_t* const odd = c->lanes[1] + kHistogramSide;
  bool empty = true;
  for_chunks(x, n, [&](const float* values, size_t size) {
    Range chunk;
    chunk_range(values, size, kSmallestNormal<T>, &chunk);
    const int32_t exponent = histogram_exponent(largest_magnitude(chunk));
    if (exponent > c->exponent && empty) c->exponent = exponent;
    if (exponent > c->exponent) widen_counters(c, exponent);
    const float reciprocal = bit_copy<float>(reciprocal_width_bits(c->exponent));
    if (chunk.min == chunk.max && finite(chunk) == static_cast<int64_t>(size)) {
      // A constant chunk would wait for its one counter at every value.
      if (chunk.zero == 0) {
        const int32_t bin = bin_of(chunk.min, reciprocal);
        even[bin] = static_cast<uint16_t>(even[bin] + size - size / 2);
        odd[bin] = static_cast<uint16_t>(odd[bin] + size / 2);
      }
    } else if (chunk.zero == 0 && finite(chunk) == static_cast<int64_t>(size)) {
      count_bins(values, size, PlainBins{reciprocal}, even, odd);
    } else {
      count_bins(values, size, AllBins{reciprocal}, even, odd);
    }
    empty = false;
    merge(*r, chunk);
  });
}

// Adds the counters, filled from values of range r, to the counts of a histogram of the same width, and empties them.
void fold_histogram(HistogramCounters* c, const Range& r, uint64_t* counts) {
  counts[kHistogramSide] += static_cast<uint64_t>(r.zero);
  if (!(r.min <= r.max)) return;
  const float reciprocal = bit_copy<float>(reciprocal_width_bits(c->exponent));
  const auto first = static_cast<size_t>(kHistogramSide + bin_of(r.min, reciprocal));
  const auto last = static_cast<size_t>(kHistogramSide + bin_of(r.max, reciprocal));
  uint16_t* __restrict even = c->lanes[0];
  uint16_t* __restrict odd = c->lanes[1];
  for (size_t i = first; i <= last; ++i) {
    counts[i] += static_cast<uint32_t>(even[i]) + odd[i];
    even[i] = odd[i] = 0;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
