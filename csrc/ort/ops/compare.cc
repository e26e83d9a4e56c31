// quarkfast::Compare: what two tensors of one shape have in common, channel by channel, as sums that add up over runs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ort/ops/axis.h"
#include "ort/ops/ops.h"

namespace quarkfast::ort {

namespace {

// One row of the output. Values that are finite in one of the two alone, or NaN, count in `odd` and nowhere else.
struct Sums {
  double signal = 0, noise = 0;
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  double beyond = 0, count = 0, odd = 0;
};
constexpr size_t kColumns = 7;
static_assert(sizeof(Sums) == kColumns * sizeof(double));

void add(Sums& sums, float reference, float value, double limit) {
  const double difference = static_cast<double>(reference) - value;
  if (!std::isfinite(difference)) {
    sums.odd += reference != value;
    return;
  }
  sums.signal += static_cast<double>(reference) * reference;
  sums.noise += difference * difference;
  sums.low = std::min<double>(sums.low, value);
  sums.high = std::max<double>(sums.high, value);
  sums.beyond += std::abs(difference) > limit;
  sums.count += 1;
}

void merge(Sums& sums, const Sums& other) {
  sums.signal += other.signal;
  sums.noise += other.noise;
  sums.low = std::min(sums.low, other.low);
  sums.high = std::max(sums.high, other.high);
  sums.beyond += other.beyond;
  sums.count += other.count;
  sums.odd += other.odd;
}

// Sums of `width` channels, each field by itself, so that several are added at once. They hold while all
// values are finite: what is not makes the noise infinite or NaN, for no square of a float32 is too large for a double.
struct Columns {
  explicit Columns(size_t width) : signal(width), noise(width), beyond(width), low(width), high(width) { clear(); }

  void clear() {
    for (auto* each : {&signal, &noise, &beyond}) std::ranges::fill(*each, 0.0);
    std::ranges::fill(low, kInfinity);
    std::ranges::fill(high, -kInfinity);
  }

  // Adds one value to each of the first `n`.
  void add(const float* reference, const float* value, size_t n, double limit) {
    // Compilers add several at once where they know that nothing overlaps.
    double* __restrict a = signal.data(), * __restrict b = noise.data(), * __restrict c = beyond.data();
    float* __restrict least = low.data(), * __restrict most = high.data();
    for (size_t at = 0; at < n; ++at) {
      const float y = value[at];
      const double wide = reference[at], difference = wide - y;
      a[at] += wide * wide;
      b[at] += difference * difference;
      c[at] += std::abs(difference) > limit ? 1.0 : 0.0;
      least[at] = y < least[at] ? y : least[at];
      most[at] = y > most[at] ? y : most[at];
    }
  }

  bool are_finite() const {
    return std::ranges::all_of(noise, [](double each) { return std::isfinite(each); });
  }

  Sums sums(size_t at, size_t count) const {
    return {signal[at], noise[at], low[at], high[at], beyond[at], static_cast<double>(count), 0};
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<double> signal, noise, beyond;
  std::vector<float> low, high;
};

// Elements of one channel go to so many lanes in turn, so that sums are the same whatever the instruction set.
// Compilers add several lanes at once and keep them in registers: 0.36 ns an element instead of 1.07 with lanes in
// memory and a count of what lies beyond a limit that nothing does (baseline x86-64, GCC 12).
constexpr size_t kLanes = 16;

// What one channel has in so many values that are all finite; else the noise is not, and the rest means nothing.
template <bool kLimited>
Sums sum_run(const float* reference, const float* value, size_t n, double limit) {
  double signal[kLanes]{}, noise[kLanes]{}, beyond[kLanes]{};
  float low[kLanes], high[kLanes];
  std::fill_n(low, kLanes, Columns::kInfinity);
  std::fill_n(high, kLanes, -Columns::kInfinity);
  const auto add_one = [&](size_t at, size_t lane) {
    const float y = value[at];
    const double wide = reference[at], difference = wide - y;
    signal[lane] += wide * wide;
    noise[lane] += difference * difference;
    if constexpr (kLimited) beyond[lane] += std::abs(difference) > limit ? 1.0 : 0.0;
    low[lane] = y < low[lane] ? y : low[lane];
    high[lane] = y > high[lane] ? y : high[lane];
  };
  const size_t whole = n - n % kLanes;
  for (size_t at = 0; at < whole; at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add_one(at + lane, lane);
  }
  for (size_t at = whole; at < n; ++at) add_one(at, at - whole);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) {
      signal[lane] += signal[lane + half];
      noise[lane] += noise[lane + half];
      beyond[lane] += beyond[lane + half];
      low[lane] = std::min(low[lane], low[lane + half]);
      high[lane] = std::max(high[lane], high[lane + half]);
    }
  }
  return {signal[0], noise[0], low[0], high[0], beyond[0], static_cast<double>(n), 0};
}

// Adds `n` elements of one channel that lie side by side.
void add_run(Sums& sums, const float* reference, const float* value, size_t n, double limit) {
  const bool limited = std::isfinite(limit);
  const Sums found = limited ? sum_run<true>(reference, value, n, limit) : sum_run<false>(reference, value, n, limit);
  if (std::isfinite(found.noise)) {
    merge(sums, found);
  } else {
    for (size_t at = 0; at < n; ++at) add(sums, reference[at], value[at], limit);
  }
}

// Adds `rows` times an element of each channel.
void add_rows(Sums* sums, size_t channels, const float* reference, const float* value, size_t rows, double limit) {
  Columns columns(channels);
  for (size_t row = 0; row < rows; ++row) {
    columns.add(reference + row * channels, value + row * channels, channels, limit);
  }
  if (columns.are_finite()) {
    for (size_t channel = 0; channel < channels; ++channel) merge(sums[channel], columns.sums(channel, rows));
  } else {
    for (size_t at = 0; at < rows * channels; ++at) add(sums[at % channels], reference[at], value[at], limit);
  }
}

class Compare {
 public:
  explicit Compare(const Node& node) : axis_(node.integer("axis", kNone)), limit_(node.real("limit")) {}

  void operator()(const Run& /*run*/, In<F32> reference, In<F32> value, Out<F64> sums) const {
    const bool same = std::ranges::equal(reference.shape.dims(), value.shape.dims());
    const size_t rank = value.shape.rank();
    // Tensors without the axis have one channel.
    const bool split = axis_ != kNone && axis_ >= -static_cast<int64_t>(rank) && axis_ < static_cast<int64_t>(rank);
    const size_t axis = split ? normalized_axis(axis_, rank) : 0;
    const auto channels = split ? static_cast<size_t>(value.shape[axis]) : size_t{1};
    const size_t inner = split ? value.shape.product(axis + 1, rank) : value.size;
    const int64_t rows[]{same ? static_cast<int64_t>(channels) : 0, kColumns};
    auto* out = reinterpret_cast<Sums*>(sums.allocate(Shape(rows)));
    if (!same) return;
    std::fill_n(out, channels, Sums{});
    if (value.size == 0) return;
    if (inner == 1) {
      add_rows(out, channels, reference.data, value.data, value.size / channels, limit_);
      return;
    }
    for (size_t at = 0, run = 0; at < value.size; at += inner, ++run) {
      add_run(out[run % channels], reference.data + at, value.data + at, inner, limit_);
    }
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

  int64_t axis_;
  double limit_;
};

}  // namespace

void add_compare(Definitions& definitions, const OrtApi* api) {
  definitions.push_back(define<Compare>(api, kDomain, "Compare"));
}

}  // namespace quarkfast::ort
