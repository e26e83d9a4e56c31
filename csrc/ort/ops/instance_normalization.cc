// ExtendedInstanceNormalization (VitisInstanceNormalization): instance normalization in bfloat16 steps.
// docs/operators.md has the details.
#include "tensor/instance_normalization.h"

#include "ort/ops/ops.h"

namespace quarkfast::ort {

namespace {

void require_channels(const char* input, const Shape& shape, int64_t channels) {
  if (shape.rank() == 1 && shape[0] == channels) return;
  throw Error{std::string(input) + ": expected shape (" + std::to_string(channels) +
              ",), one value for each channel, " + "got " + shape.text()};
}

void require_batch_and_channels(size_t rank) {
  if (rank < 2) throw Error{"x: expected at least 2 dimensions, batch and channels, got " + std::to_string(rank)};
}

class InstanceNormalization {
 public:
  static constexpr bool kKeepsShape = true;

  explicit InstanceNormalization(const Node& node) : epsilon_(node.real("epsilon", 1e-5f)) {
    if (const auto rank = node.rank(0)) require_batch_and_channels(*rank);
    const In<F32> gamma = node.constant<F32>(1), beta = node.constant<F32>(2);
    if (gamma.data != nullptr && beta.data != nullptr) require_channels("bias", beta.shape, gamma.shape[0]);
  }

  void operator()(const Run& run, In<F32> x, In<F32> gamma, In<F32> beta, Out<F32> y) const {
    require_batch_and_channels(x.shape.rank());
    require_channels("scale", gamma.shape, x.shape[1]);
    require_channels("bias", beta.shape, x.shape[1]);
    normalize_instances(x.data, y.allocate(x.shape), static_cast<size_t>(x.shape[0]), static_cast<size_t>(x.shape[1]),
                        x.shape.product(2, x.shape.rank()), gamma.data, beta.data, epsilon_, run.pool());
  }

 private:
  float epsilon_;
};

}  // namespace

void add_instance_normalization(Definitions& definitions, const OrtApi* api) {
  add_quark<InstanceNormalization>(definitions, api, "ExtendedInstanceNormalization", "VitisInstanceNormalization");
}

}  // namespace quarkfast::ort
