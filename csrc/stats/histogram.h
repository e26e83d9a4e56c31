// A dyadic histogram: exact to merge, the same whatever the order of values (docs/numerics.md, "Histograms").
#pragma once

#include <cstdint>
#include <vector>

#include "export.h"
#include "numerics/histogram.h"

namespace quarkfast {

// Counts of finite values, from the most negative bin to the most positive; zero of either sign is in the first
// positive bin. Bin i, and with it the value x, lies at (i - kHistogramSide) * 2^exponent from zero outwards.
struct QUARKFAST_API Histogram {
  int32_t exponent = kSmallestBinExponent;
  std::vector<uint64_t> counts;  // kHistogramBins of them, or none while nothing was counted
};

// Makes room for counts.
QUARKFAST_API void allocate(Histogram& h);

// Doubles bins until they are 2^exponent wide; a histogram that is that wide already stays as it is.
QUARKFAST_API void widen(Histogram& h, int32_t exponent);

QUARKFAST_API void merge(Histogram& into, const Histogram& from);

}  // namespace quarkfast
