#include "stats/histogram.h"

namespace quarkfast {

void allocate(Histogram& h) {
  h.counts.resize(kHistogramBins);
}

void widen(Histogram& h, int32_t width) {
  if (width <= h.width) return;
  if (!h.counts.empty()) merge_bins(h.counts.data(), width - h.width);
  h.width = width;
}

void merge(Histogram& into, const Histogram& from) {
  if (from.counts.empty()) return;
  allocate(into);
  widen(into, from.width);
  const int32_t doublings = into.width - from.width;
  for (int32_t i = 0; i < kHistogramBins; ++i) {
    into.counts[static_cast<size_t>(merged_bin(i, doublings))] += from.counts[static_cast<size_t>(i)];
  }
}

}  // namespace quarkfast
