// What range estimation reads, and what it gives.
#pragma once

#include <cstdint>

#include "numerics/histogram.h"

namespace quarkfast {

// A view of a histogram, with the extremes and the number of zeros of the same values. Without a finite value min is
// +inf.
struct HistogramView {
  const uint64_t* counts;  // kHistogramBins of them
  int32_t exponent;        // of the bin width, 2^exponent
  double min;
  double max;
  uint64_t zero;
};

// The values to keep: what lies outside becomes the nearer end.
struct ClippingRange {
  double low = 0;
  double high = 0;
};

// The least range that keeps everything; [0, 0] where nothing was seen.
constexpr ClippingRange whole_range(const HistogramView& h) {
  return h.min <= h.max ? ClippingRange{h.min, h.max} : ClippingRange{};
}

// [-threshold, threshold], but not beyond what was seen.
constexpr ClippingRange limited(const HistogramView& h, double threshold) {
  return {-threshold > h.min ? -threshold : h.min, threshold < h.max ? threshold : h.max};
}

constexpr double largest_magnitude(const HistogramView& h) {
  return -h.min > h.max ? -h.min : h.max;
}

}  // namespace quarkfast
