// quarkfast::Compare: what two tensors of one shape have in common, channel by channel, as sums that add up over runs.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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

// Sums of consecutive elements in turn, so that they are the same whatever the instruction set.
constexpr size_t kLanes = 8;

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

// Adds `n` elements of one channel that lie side by side.
void add_run(Sums& sums, const float* reference, const float* value, size_t n, double limit) {
  std::array<Sums, kLanes> lanes;
  size_t at = 0;
  for (; at + kLanes <= n; at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lanes[lane], reference[at + lane], value[at + lane], limit);
  }
  for (; at < n; ++at) add(lanes[at % kLanes], reference[at], value[at], limit);
  for (const Sums& lane : lanes) merge(sums, lane);
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
    const std::array<int64_t, 2> rows{same ? static_cast<int64_t>(channels) : 0, kColumns};
    auto* out = reinterpret_cast<Sums*>(sums.allocate(Shape(rows)));
    if (!same) return;
    std::fill_n(out, channels, Sums{});
    for (size_t at = 0, channel = 0; at < value.size; at += inner, channel = channel + 1 < channels ? channel + 1 : 0) {
      if (inner == 1) {
        add(out[channel], reference.data[at], value.data[at], limit_);
      } else {
        add_run(out[channel], reference.data + at, value.data + at, inner, limit_);
      }
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
