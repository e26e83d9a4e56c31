#include "ranges/percentile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace quarkfast {

namespace {

// Counts of one bin after the other, in the order of the walk. Zeros lie all at one edge of their bin.
struct Step {
  uint64_t count;
  uint64_t zeros_before;  // at the edge where the walk enters the bin
  uint64_t zeros_behind;  // at the edge where it leaves
};

// Position, in bins, below which `rank` of the counts lie.
template <class Walk>
double quantile(const Walk& step_at, int32_t bins, double rank) {
  double below = 0, position = 0;
  for (int32_t i = 0; i < bins; ++i) {
    const Step step = step_at(i);
    if (step.count == 0) continue;
    if (below + static_cast<double>(step.count) >= rank) {
      const double into = rank - below - static_cast<double>(step.zeros_before);
      const auto spread = static_cast<double>(step.count - step.zeros_before - step.zeros_behind);
      return i + (into <= 0 ? 0.0 : into >= spread ? 1.0 : into / spread);
    }
    below += static_cast<double>(step.count);
    position = i + 1.0;
  }
  return position;
}

double total(const HistogramView& h) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < kHistogramBins; ++i) sum += h.counts[i];
  return static_cast<double>(sum);
}

}  // namespace

ClippingRange percentile_range(const HistogramView& h, double percentile, bool symmetric) {
  const ClippingRange all = whole_range(h);
  const double n = total(h);
  if (n == 0) return {};
  if (percentile >= 100) return symmetric ? limited(h, largest_magnitude(h)) : all;
  if (symmetric) {
    const auto folded = [&](int32_t b) {
      return Step{h.counts[kHistogramSide + b] + h.counts[kHistogramSide - 1 - b], b ? 0 : h.zero, 0};
    };
    return limited(h, std::ldexp(quantile(folded, kHistogramSide, n * (percentile / 100)), h.exponent));
  }
  const double cut = n * ((100 - percentile) / 200);
  const auto upwards = [&](int32_t i) { return Step{h.counts[i], i == kHistogramSide ? h.zero : 0, 0}; };
  const auto downwards = [&](int32_t i) {
    return Step{h.counts[kHistogramBins - 1 - i], 0, i == kHistogramSide - 1 ? h.zero : 0};
  };
  const double low = std::ldexp(quantile(upwards, kHistogramBins, cut) - kHistogramSide, h.exponent);
  const double high = std::ldexp(kHistogramSide - quantile(downwards, kHistogramBins, cut), h.exponent);
  // Values count as spread over their bin, so a place in the outermost one may lie beyond either extreme.
  return {std::clamp(low, all.low, all.high), std::clamp(high, all.low, all.high)};
}

}  // namespace quarkfast
