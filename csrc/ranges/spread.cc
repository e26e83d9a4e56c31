#include "ranges/spread.h"

#include <cmath>

namespace quarkfast {

Spread spread(const HistogramView& h, int root) {
  double total = 0, sum = 0, squares = 0;
  for (int32_t i = 0; i < kHistogramBins; ++i) {
    const auto all = static_cast<double>(h.counts[i]);
    total += all;
    const double count = i == kHistogramSide ? all - static_cast<double>(h.zero) : all;
    if (count == 0) continue;
    const double middle = std::ldexp(i - kHistogramSide + 0.5, h.exponent);
    const double value = root == 3 ? std::cbrt(middle) : middle;
    sum += count * value;
    squares += count * (value * value);
  }
  if (total == 0) return {};
  const double mean = sum / total, variance = squares / total - mean * mean;
  return {mean, std::sqrt(variance > 0 ? variance : 0)};
}

}  // namespace quarkfast
