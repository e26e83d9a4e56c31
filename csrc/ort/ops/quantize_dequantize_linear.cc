// quarkfast::QuantizeDequantizeLinear: y = float32(saturate(round(x / scale) + zero_point) - zero_point) * scale, a
// QuantizeLinear and its DequantizeLinear in one pass over memory. docs/operators.md has the details.
#include <limits>

#include "ort/ops/linear_inputs.h"
#include "ort/ops/ops.h"
#include "tensor/linear.h"

namespace quarkfast::ort {

namespace {

template <class Q>
class QuantizeDequantizeLinear {
 public:
  static constexpr bool kKeepsShape = true;
  static constexpr bool kMayInPlace = true;

  explicit QuantizeDequantizeLinear(const Node& node) : inputs_(node) { inputs_.template check_constants<Q>(node); }

  void operator()(const Run& run, In<F32> x, In<F32> scale, In<Q> zero_point, Out<F32> y) const {
    const ScaleLayout layout = inputs_.layout(x.shape, scale, zero_point);
    float* out = y.allocate(x.shape);
    using Limits = std::numeric_limits<typename Q::storage>;
    fake_quantize_linear(x.data, out, layout, scale.data, zero_point.data, {Limits::min(), Limits::max()}, run.pool());
  }

 private:
  LinearInputs inputs_;
};

}  // namespace

void add_quantize_dequantize_linear(Definitions& definitions, const OrtApi* api) {
  for_each_type<U8, I8, U16, I16>([&]<class Q>() {
    definitions.push_back(define<QuantizeDequantizeLinear<Q>>(api, kDomain, "QuantizeDequantizeLinear"));
  });
}

}  // namespace quarkfast::ort
