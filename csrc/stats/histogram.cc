#include "stats/histogram.h"

namespace quarkfast {

void allocate(Histogram& h) {
  h.counts.resize(kHistogramBins);
}

void widen(Histogram& h, int32_t exponent) {
  if (exponent <= h.exponent) return;
  if (!h.counts.empty()) merge_bins(h.counts.data(), exponent - h.exponent);
  h.exponent = exponent;
}

void merge(Histogram& into, const Histogram& from) {
  if (from.counts.empty()) return;
  allocate(into);
  widen(into, from.exponent);
  const int32_t doublings = into.exponent - from.exponent;
  for (int32_t i = 0; i < kHistogramBins; ++i) {
    into.counts[static_cast<size_t>(merged_bin(i, doublings))] += from.counts[static_cast<size_t>(i)];
  }
}

}  // namespace quarkfast
