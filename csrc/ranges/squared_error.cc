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
constexpr double kLargestEnd = std::numeric_limits<float>::max() / 2;  // the difference of two is finite in float32

// Step g of the thresholds below 1: six binary digits an octave.
double shrunk(int step) {
  const int within = step % kStepsPerOctave;
  return std::ldexp(2 * kStepsPerOctave - within, -(step / kStepsPerOctave)) / (2 * kStepsPerOctave);
}

// The step below `steps` with the least error, searched coarsely, then around the best.
template <class Error>
int least_step(int steps, const Error& error) {
  double least = std::numeric_limits<double>::infinity();
  int best = 0;
  const auto consider = [&](int step) {
    const double found = error(step);
    if (found < least) {
      least = found;
      best = step;
    }
  };
  for (int step = 0; step < steps; step += kCoarse) consider(step);
  const int around = best;
  for (int step = std::max(0, around - kCoarse + 1); step < std::min(steps, around + kCoarse); ++step) {
    if (step != around) consider(step);
  }
  return best;
}

}  // namespace

Linear linear_for(const Clip& clip, const Codes& codes, bool symmetric) {
  double low = std::clamp(clip.low, -kLargestEnd, 0.0), high = std::clamp(clip.high, 0.0, kLargestEnd);
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

SquaredError::SquaredError(const Observed& o)
    : kernels_(active()), weights_(kHistogramBins), bin_(std::ldexp(1.0, o.width)) {
  double total = 0;
  size_t first = kHistogramBins, last = 0;
  for (size_t i = 0; i < kHistogramBins; ++i) {
    total += static_cast<double>(o.counts[i]);
    weights_[i] = static_cast<double>(o.counts[i] - (i == kHistogramSide ? o.zero : 0));
    if (weights_[i] == 0) continue;
    first = std::min(first, i);
    last = i + 1;
  }
  if (last == 0) return;
  for (double& weight : weights_) weight /= total;
  first_ = first / kLanes * kLanes;
  last_ = (last + kLanes - 1) / kLanes * kLanes;
}

double SquaredError::operator()(const Linear& linear, const Codes& codes) const {
  if (first_ == last_) return 0;
  const double low = static_cast<double>(codes.qmin - linear.zero_point);
  const double high = static_cast<double>(codes.qmax - linear.zero_point);
  const double sum = kernels_.histogram_error(weights_.data(), first_, last_, bin_ / linear.scale, low, high);
  return sum * linear.scale * linear.scale * (linear.scale / bin_);
}

Clip clip_squared_error(const Observed& o, const Codes& codes, bool symmetric) {
  if (!(o.min <= o.max)) return {};
  const SquaredError error(o);
  const auto cost = [&](const Clip& clip) { return error(linear_for(clip, codes, symmetric), codes); };
  constexpr int kSteps = kOctaves * kStepsPerOctave;
  if (symmetric) {
    const double top = largest_magnitude(o);
    return limited(o,
                   top * shrunk(least_step(kSteps, [&](int g) { return cost({-top * shrunk(g), top * shrunk(g)}); })));
  }
  const double low = std::min(o.min, 0.0), high = std::max(o.max, 0.0);
  const double both = shrunk(least_step(kSteps, [&](int g) { return cost({low * shrunk(g), high * shrunk(g)}); }));
  Clip best{low * both, high * both};
  if (best.low < 0 && best.high > 0) {  // each end alone, from where it was up to two octaves inwards
    constexpr int kAlone = 2 * kStepsPerOctave;
    best.high = high * shrunk(least_step(kAlone, [&](int g) { return cost({best.low, high * shrunk(g)}); }));
    best.low = low * shrunk(least_step(kAlone, [&](int g) { return cost({low * shrunk(g), best.high}); }));
  }
  return {std::max(best.low, o.min), std::min(best.high, o.max)};
}

Clip clip_power_of_two(const Observed& o, const Codes& codes, bool symmetric, int count) {
  if (!(o.min <= o.max)) return {};
  const SquaredError error(o);
  const Linear base = linear_for(everything(o), codes, symmetric);
  int exponent = 0;
  const double fraction = std::frexp(base.scale, &exponent);  // the nearest power is half of 2^exponent below sqrt(1/2)
  exponent -= fraction <= 0.70710678118654752440;
  double least = std::numeric_limits<double>::infinity(), scale = std::ldexp(1.0, exponent);
  if (o.min < 0 || o.max > 0) {  // otherwise every candidate is exact, and the nearest stays
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
