// ExtendedDequantizeLinear (VitisDequantizeLinear): y = float32(x - zero_point) * scale. docs/operators.md has the
// details.
#include <limits>

#include "ort/ops/linear_inputs.h"
#include "ort/ops/ops.h"
#include "tensor/linear.h"
#include "tensor/linear_float.h"

namespace quarkfast::ort {

namespace {

template <class Q>
class DequantizeLinear {
 public:
  static constexpr bool kKeepsShape = true;

  explicit DequantizeLinear(const Node& node) : inputs_(node) { inputs_.template check_constants<Q>(node); }

  void operator()(const Run& run, In<Q> x, In<F32> scale, In<Q> zero_point, Out<F32> y) const {
    const ScaleLayout layout = inputs_.layout(x.shape, scale, zero_point);
    float* out = y.allocate(x.shape);
    if constexpr (std::numeric_limits<typename Q::storage>::is_integer) {
      dequantize_linear(x.data, out, layout, scale.data, zero_point.data, run.pool());
    } else {
      dequantize_float(x.data, out, layout, scale.data, zero_point.data, run.pool());
    }
  }

 private:
  LinearInputs inputs_;
};

}  // namespace

void add_dequantize_linear(Definitions& definitions, const OrtApi* api) {
  for_each_type<U8, I8, U16, I16, U32, I32, F16, BF16>([&]<class Q>() {
    add_quark<DequantizeLinear<Q>>(definitions, api, "ExtendedDequantizeLinear", "VitisDequantizeLinear");
  });
}

}  // namespace quarkfast::ort
