// Dyadic histograms: which bin a value belongs to (docs/numerics.md, "Histograms").
//
// A bin is 2^e wide; bin b of a side holds the magnitudes in [b * 2^e, (b + 1) * 2^e). Magnitudes are cut, not rounded,
// so the bin at width 2^(e+1) is the bin at 2^e divided by two: widths nest, and merging neighbours equals counting
// anew. e follows from the largest magnitude alone, which makes the histogram a function of the multiset of values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

constexpr int32_t kHistogramSideBits = 11;
constexpr int32_t kHistogramSide =
    1 << kHistogramSideBits;  // bins for each sign: as fine as 2048 bins over [-max, max]
constexpr int32_t kHistogramBins = 2 * kHistogramSide;

// The narrowest bin is the smallest normal float32: its reciprocal is finite, and subnormals fall into the first bin
// whether or not the processor flushes them to zero.
constexpr int32_t kSmallestBinExponent = -126;
constexpr int32_t kLargestBinExponent = 128 - kHistogramSideBits;

// The exponent of the bin width for values up to the given magnitude (bits of a finite float32 without sign): the
// smallest e, but for the limit above, with magnitude < 2^(e + kHistogramSideBits).
constexpr int32_t histogram_exponent(uint32_t magnitude) {
  const int32_t exponent = static_cast<int32_t>(magnitude >> 23) - 126 - kHistogramSideBits;
  return exponent < kSmallestBinExponent ? kSmallestBinExponent : exponent;
}

// Bits of the float32 2^-exponent, exact for every exponent.
constexpr uint32_t reciprocal_width_bits(int32_t exponent) {
  return static_cast<uint32_t>(127 - exponent) << 23;
}

// Where bin i lies after every bin has doubled `doublings` times; i counts from the most negative bin.
constexpr int32_t merged_bin(int32_t i, int32_t doublings) {
  // The shift rounds down, so that the negative side, whose bin b is -1 - b here, mirrors the positive one.
  return ((i - kHistogramSide) >> (doublings < 31 ? doublings : 31)) + kHistogramSide;
}

// Doubles the width of every bin. static: each instruction set keeps an instance of its own.
template <class Count>
static constexpr void merge_bins(Count* counts, int32_t doublings) {
  // Outwards from zero, so that a bin is read before anything is added to it.
  for (int32_t b = 0; b < kHistogramSide; ++b) {
    const int32_t mirrored[2] = {kHistogramSide + b, kHistogramSide - 1 - b};
    for (const int32_t i : mirrored) {
      const Count count = counts[i];
      counts[i] = 0;
      Count& merged = counts[merged_bin(i, doublings)];
      merged = static_cast<Count>(merged + count);
    }
  }
}

// Counters of one thread: at most kHistogramBlock values between two folds. Two sets of counters, taken in turn, keep
// equal neighbours from waiting for each other's store; and of equal values each gets half, but for the fewer than 128
// at either end, so 16 bits never overflow. The bins after the last are for zeros and non-finite values, which Range
// counts already.
constexpr size_t kHistogramBlock = 62 * 2048;
static_assert(kHistogramBlock / 2 + 2 * 128 < 1 << 16);
constexpr size_t kHistogramSpare = 32;
struct HistogramCounters {
  int32_t exponent = kSmallestBinExponent;
  uint16_t lanes[2][kHistogramBins + kHistogramSpare] = {};
};

}  // namespace quarkfast
