// What the methods of calibration read.
#pragma once

#include <cstdint>

#include "numerics/histogram.h"

namespace quarkfast {

// A histogram with the extremes and the number of zeros of the same values. Without a finite value min is +inf.
struct Observed {
  const uint64_t* counts;  // kHistogramBins of them
  int32_t width;
  double min;
  double max;
  uint64_t zero;
};

// The values to keep: what lies outside becomes the nearer end.
struct Clip {
  double low = 0;
  double high = 0;
};

// Codes of an integer type.
struct Codes {
  int64_t qmin;
  int64_t qmax;
};

// The least clip that keeps everything; [0, 0] where nothing was seen.
constexpr Clip everything(const Observed& o) {
  return o.min <= o.max ? Clip{o.min, o.max} : Clip{};
}

// [-threshold, threshold], but not beyond what was seen.
constexpr Clip limited(const Observed& o, double threshold) {
  return {-threshold > o.min ? -threshold : o.min, threshold < o.max ? threshold : o.max};
}

constexpr double largest_magnitude(const Observed& o) {
  return -o.min > o.max ? -o.min : o.max;
}

}  // namespace quarkfast
