// quarkfast::Compare: what two tensors of one shape have in common, channel by channel, as sums that add up over runs.
#include <algorithm>
#include <limits>

#include "ort/ops/axis.h"
#include "ort/ops/ops.h"
#include "runtime/dispatch.h"

namespace quarkfast::ort {

namespace {

constexpr size_t kColumns = 7;
static_assert(sizeof(ComparedSums) == kColumns * sizeof(double));

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
    auto* out = reinterpret_cast<ComparedSums*>(sums.allocate(Shape(rows)));
    if (!same) return;
    std::fill_n(out, channels, ComparedSums{});
    if (value.size == 0) return;
    const Kernels& kernels = active();
    if (inner == 1) {
      kernels.compare_channels_f32(reference.data, value.data, value.size / channels, channels, limit_, out);
      return;
    }
    for (size_t at = 0, run = 0; at < value.size; at += inner, ++run) {
      kernels.compare_f32(reference.data + at, value.data + at, inner, limit_, &out[run % channels]);
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
