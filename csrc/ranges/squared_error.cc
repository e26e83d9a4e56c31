#include "ranges/squared_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quarkfast {

namespace {

constexpr size_t kLanes = 8;         // bins are read in whole groups, as the kernel wants them
constexpr int kStepsPerOctave = 64;  // of thresholds
constexpr int kCoarse = 8;           // steps between thresholds of the first pass
constexpr int kOctaves = kHistogramSideBits;
constexpr double kClearlyLess = 1 - 0x1p-20;  // errors that differ by rounding alone count as equal
constexpr double kSmallestScale = std::numeric_limits<float>::min();
constexpr double kNoTie = 0.5 - 0x1p-20;
constexpr double kLargestEnd = std::numeric_limits<float>::max() / 2;  // the difference of two is finite in float32

// Step g of the thresholds below 1: six binary digits an octave.
double shrunk(int step) {
  const int within = step % kStepsPerOctave;
  return std::ldexp(2 * kStepsPerOctave - within, -(step / kStepsPerOctave)) / (2 * kStepsPerOctave);
}

// No error of a later step is known to be larger than nothing.
constexpr auto kUnbounded = [](int, double) { return 0.0; };

// The step below `steps` with the least error, searched coarsely, then around the best. `bound` is given a step and its
// error, and returns what the errors of later steps cannot fall below.
template <class Error, class Bound>
int least_step(int steps, const Error& error, const Bound& bound) {
  double least = std::numeric_limits<double>::infinity();
  int best = 0;
  const auto consider = [&](int step) {
    const double found = error(step);
    if (found < least) {
      least = found;
      best = step;
    }
    return found;
  };
  for (int step = 0; step < steps; step += kCoarse) {
    if (bound(step, consider(step)) > least) break;
  }
  const int around = best;
  for (int step = std::max(0, around - kCoarse + 1); step < std::min(steps, around + kCoarse); ++step) {
    if (step != around) consider(step);
  }
  return best;
}

// Whether ranges that shrink by `shrunk` lie within each other once rounded to codes: scales are not held up, and the
// zero point does not lie so near to the middle of two integers that both may be the nearest.
bool are_nested(double low, double high, const CodeRange& codes, bool symmetric) {
  const double step = (high - low) / static_cast<double>(codes.qmax - codes.qmin);
  if (step * shrunk(kOctaves * kStepsPerOctave) < kSmallestScale) return false;
  const double zero = low / step;
  return symmetric || std::abs(zero - std::nearbyint(zero)) < kNoTie;
}

}  // namespace

QParams qparams_from_range(const ClippingRange& range, const CodeRange& codes, bool symmetric) {
  double low = std::clamp(range.low, -kLargestEnd, 0.0), high = std::clamp(range.high, 0.0, kLargestEnd);
  if (symmetric) {
    high = std::max(-low, high);
    low = -high;
  }
  const double exact = (high - low) / static_cast<double>(codes.qmax - codes.qmin);
  const double middle = std::nearbyint(static_cast<double>(codes.qmin + codes.qmax) / 2);
  if (exact == 0)
    return {1.0, symmetric ? static_cast<int64_t>(middle) : std::clamp<int64_t>(0, codes.qmin, codes.qmax)};
  const double step = std::max(exact, kSmallestScale);
  const auto scale = static_cast<double>(static_cast<float>(step));
  if (symmetric) return {scale, static_cast<int64_t>(middle)};
  const double zero = std::nearbyint(static_cast<double>(codes.qmin) - low / step);
  return {scale,
          static_cast<int64_t>(std::clamp(zero, static_cast<double>(codes.qmin), static_cast<double>(codes.qmax)))};
}

QuantizationError::QuantizationError(const HistogramView& h)
    : kernels_(active()), weights_(kHistogramBins), bin_(std::ldexp(1.0, h.exponent)) {
  double total = 0;
  size_t first = kHistogramBins, last = 0;
  for (size_t i = 0; i < kHistogramBins; ++i) {
    total += static_cast<double>(h.counts[i]);
    weights_[i] = static_cast<double>(h.counts[i] - (i == kHistogramSide ? h.zero : 0));
    if (weights_[i] == 0) continue;
    first = std::min(first, i);
    last = i + 1;
  }
  if (last == 0) return;
  for (double& weight : weights_) weight /= total;
  first_ = first / kLanes * kLanes;
  last_ = (last + kLanes - 1) / kLanes * kLanes;
}

double QuantizationError::operator()(const QParams& qparams, const CodeRange& codes) const {
  if (first_ == last_) return 0;
  const double low = static_cast<double>(codes.qmin - qparams.zero_point);
  const double high = static_cast<double>(codes.qmax - qparams.zero_point);
  const double sum = kernels_.quantization_error(weights_.data(), first_, last_, bin_ / qparams.scale, low, high);
  return sum * qparams.scale * qparams.scale * (qparams.scale / bin_);
}

ClippingRange least_error_range(const HistogramView& h, const CodeRange& codes, bool symmetric) {
  if (!(h.min <= h.max)) return {};
  const QuantizationError error(h);
  const auto cost = [&](const ClippingRange& range) {
    return error(qparams_from_range(range, codes, symmetric), codes);
  };
  const double top = largest_magnitude(h);
  const double low = symmetric ? -top : std::min(h.min, 0.0), high = symmetric ? top : std::max(h.max, 0.0);
  const auto at = [&](int step) { return ClippingRange{low * shrunk(step), high * shrunk(step)}; };
  // What is cut off errs the more, the smaller the range. What is not errs by half a step at most.
  const bool nested = are_nested(low, high, codes, symmetric);
  const auto cut_off = [&](int step, double found) {
    const double half = qparams_from_range(at(step), codes, symmetric).scale / 2;
    return nested ? found * kClearlyLess - half * half : 0.0;
  };
  const int both = least_step(kOctaves * kStepsPerOctave, [&](int step) { return cost(at(step)); }, cut_off);
  if (symmetric) return limited(h, high * shrunk(both));
  ClippingRange best = at(both);
  if (best.low < 0 && best.high > 0) {  // each end alone, from where it was up to two octaves inwards
    constexpr int kAlone = 2 * kStepsPerOctave;
    const auto alone = [&](const auto& noise) { return least_step(kAlone, noise, kUnbounded); };
    best.high = high * shrunk(alone([&](int step) { return cost({best.low, high * shrunk(step)}); }));
    best.low = low * shrunk(alone([&](int step) { return cost({low * shrunk(step), best.high}); }));
  }
  return {std::max(best.low, h.min), std::min(best.high, h.max)};
}

ClippingRange power_of_two_range(const HistogramView& h, const CodeRange& codes, bool symmetric, int count) {
  if (!(h.min <= h.max)) return {};
  const QuantizationError error(h);
  const QParams base = qparams_from_range(whole_range(h), codes, symmetric);
  int exponent = 0;
  const double fraction = std::frexp(base.scale, &exponent);  // the nearest power is half of 2^exponent below sqrt(1/2)
  exponent -= fraction <= 0.70710678118654752440;
  double least = std::numeric_limits<double>::infinity(), scale = std::ldexp(1.0, exponent);
  if (h.min < 0 || h.max > 0) {  // otherwise every candidate is exact, and the nearest stays
    for (int i = 0; i < count; ++i) {
      const double candidate = std::ldexp(1.0, std::clamp(exponent + 1 - i, -126, 127));
      const double found = error({candidate, base.zero_point}, codes);
      if (found < least * kClearlyLess) {
        least = found;
        scale = candidate;
      }
    }
  }
  return {static_cast<double>(codes.qmin - base.zero_point) * scale,
          static_cast<double>(codes.qmax - base.zero_point) * scale};
}

}  // namespace quarkfast
