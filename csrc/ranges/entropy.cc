#include "ranges/entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ranges/logarithm.h"

namespace quarkfast {

namespace {

// x * log2(x), zero for zero.
double entropy_term(double x) {
  return x > 0 ? x * binary_logarithm(x) : 0.0;
}

// Magnitudes without zeros, as sums over the bins before each bin.
struct Magnitudes {
  std::vector<uint64_t> counts = std::vector<uint64_t>(kHistogramSide);
  std::vector<uint64_t> total = std::vector<uint64_t>(kHistogramSide + 1);
  std::vector<int32_t> filled = std::vector<int32_t>(kHistogramSide + 1);
  std::vector<double> terms = std::vector<double>(kHistogramSide + 1);
  int32_t bins = 0;  // up to the last that holds something

  explicit Magnitudes(const HistogramView& h) {
    for (int32_t b = 0; b < kHistogramSide; ++b) {
      counts[b] = h.counts[kHistogramSide + b] + h.counts[kHistogramSide - 1 - b] - (b ? 0 : h.zero);
      total[b + 1] = total[b] + counts[b];
      filled[b + 1] = filled[b] + (counts[b] != 0);
      terms[b + 1] = terms[b] + entropy_term(static_cast<double>(counts[b]));
      if (counts[b]) bins = b + 1;
    }
  }
};

// What groups inside a threshold add to the divergence: sum * log2(mean of its filled bins). Thresholds share most of
// their groups, so each is computed once: a search over 2048 bins takes 1 ms instead of 4.
class Groups {
 public:
  Groups(const Magnitudes& m, int32_t levels)
      : m_(m), longest_(std::min(kHistogramSide / levels + 1, kLongest)), terms_(rows(longest_), kNone) {}

  double operator()(int32_t begin, int32_t end) {
    if (end - begin > longest_) return term(begin, end);
    double& known = terms_[rows(end - begin - 1) + static_cast<size_t>(begin)];
    if (known == kNone) known = term(begin, end);
    return known;
  }

 private:
  static constexpr int32_t kLongest = 32;  // in bins; where groups are longer there are few of them
  static constexpr double kNone = -1;      // no term: counts are whole, so none has a mean below 1 or a sum below 0

  static size_t rows(int32_t lengths) { return static_cast<size_t>(lengths) * kHistogramSide; }

  double term(int32_t begin, int32_t end) const {
    const auto sum = static_cast<double>(m_.total[end] - m_.total[begin]);
    return sum > 0 ? sum * binary_logarithm(sum / (m_.filled[end] - m_.filled[begin])) : 0.0;
  }

  const Magnitudes& m_;
  int32_t longest_;
  std::vector<double> terms_;
};

// The divergence for a threshold behind `bins` bins, times the number of values.
double divergence(const Magnitudes& m, Groups& groups, int32_t bins, int32_t levels) {
  const uint64_t outside = m.total[kHistogramSide] - m.total[bins];
  const int32_t start_of_last = static_cast<int32_t>((int64_t{levels - 1} * bins + levels - 1) / levels);
  const uint64_t last = m.total[bins] - m.total[start_of_last];
  if (outside && !last) return std::numeric_limits<double>::infinity();
  double spread = 0;  // sum of p * log2(q)
  int32_t begin = 0;
  for (int32_t g = 0; g + 1 < levels; ++g) {
    const int32_t end = static_cast<int32_t>((int64_t{g + 1} * bins + levels - 1) / levels);
    spread += groups(begin, end);
    begin = end;
  }
  if (outside || last) {
    const bool lifted = outside && !m.counts[bins - 1];  // an empty bin that takes what is outside
    const int32_t filled = m.filled[bins] - m.filled[begin] + lifted;
    const auto sum = static_cast<double>(last);
    spread += (sum + static_cast<double>(outside)) * binary_logarithm(sum / filled);
  }
  const auto edge = static_cast<double>(m.counts[bins - 1]);
  const double own = m.terms[bins - 1] + entropy_term(edge + static_cast<double>(outside));
  const auto all = static_cast<double>(m.total[kHistogramSide]);
  return own - spread + all * binary_logarithm(static_cast<double>(m.total[bins]) / all);
}

// A distribution with a little of its mass moved to its empty bins, as onnxruntime smooths; false where all are empty.
bool smooth(std::vector<double>& p) {
  constexpr double kEpsilon = 1e-4;
  size_t zeros = 0;
  for (const double v : p) zeros += v == 0;
  if (zeros == p.size()) return false;
  const double less = kEpsilon * static_cast<double>(zeros) / static_cast<double>(p.size() - zeros);
  double sum = 0;
  for (double& v : p) {
    v = v == 0 ? kEpsilon : v - less;
    sum += v;
  }
  for (double& v : p) v /= sum;
  return true;
}

double window_divergence(const std::vector<uint64_t>& counts, size_t start, size_t end, size_t levels) {
  std::vector<double> p(end - start), q(end - start);
  std::vector<uint64_t> inside(counts.begin() + static_cast<std::ptrdiff_t>(start),
                               counts.begin() + static_cast<std::ptrdiff_t>(end));
  for (size_t i = 0; i < p.size(); ++i) p[i] = static_cast<double>(inside[i]);
  for (size_t i = 0; i < start; ++i) p.front() += static_cast<double>(counts[i]);
  for (size_t i = end; i < counts.size(); ++i) p.back() += static_cast<double>(counts[i]);
  const size_t group = p.size() / levels;
  for (size_t g = 0; g < levels; ++g) {
    uint64_t sum = 0, filled = 0;
    for (size_t i = g * group; i < (g + 1) * group; ++i) {
      sum += inside[i];
      filled += p[i] != 0;
    }
    // What is left over behind the last group counts to it but is not spread over.
    for (size_t i = levels * group; g + 1 == levels && i < inside.size(); ++i) sum += inside[i];
    for (size_t i = g * group; filled && i < (g + 1) * group; ++i) q[i] = static_cast<double>(sum / filled);
  }
  if (!smooth(p) || !smooth(q)) return std::numeric_limits<double>::infinity();
  double result = 0;
  for (size_t i = 0; i < p.size(); ++i) result += p[i] * binary_logarithm(p[i] / q[i]);
  return result;
}

}  // namespace

ClippingRange entropy_range(const HistogramView& h, int32_t levels) {
  if (!(h.min <= h.max)) return {};
  const Magnitudes m(h);
  Groups groups(m, levels);
  double least = std::numeric_limits<double>::infinity();
  int32_t best = m.bins;
  for (int32_t bins = levels; bins <= m.bins; ++bins) {
    const double found = divergence(m, groups, bins, levels);
    if (found < least) {
      least = found;
      best = bins;
    }
  }
  return best == m.bins ? limited(h, largest_magnitude(h)) : limited(h, std::ldexp(best, h.exponent));
}

ClippingRange entropy_window_range(const HistogramView& h, int32_t bins, int32_t levels) {
  if (!(h.min <= h.max)) return {};
  const int32_t merged = kHistogramBins / bins;
  std::vector<uint64_t> counts(static_cast<size_t>(bins));
  for (int32_t i = 0; i < kHistogramBins; ++i) counts[static_cast<size_t>(i / merged)] += h.counts[i];
  double least = std::numeric_limits<double>::infinity();
  int32_t best = levels / 2;
  for (int32_t half = levels / 2; half <= bins / 2; ++half) {
    const auto start = static_cast<size_t>(bins / 2 - half);
    const auto end = static_cast<size_t>(half == bins / 2 ? bins : bins / 2 + half + 1);
    const double found = window_divergence(counts, start, end, static_cast<size_t>(levels));
    if (found < least) {
      least = found;
      best = half;
    }
  }
  // The window has one more bin on its right, but for the widest.
  const double low = -std::ldexp(best * merged, h.exponent);
  const double high = std::ldexp((best == bins / 2 ? best : best + 1) * merged, h.exponent);
  return {low > h.min ? low : h.min, high < h.max ? high : h.max};
}

}  // namespace quarkfast
