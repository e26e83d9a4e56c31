// ExtendedQuantizeLinear (VitisQuantizeLinear): y = saturate(round(x / scale) + zero_point) for integers,
// y = T(x / scale + zero_point) for bfloat16 and float16. docs/operators.md has the details.
#include <limits>

#include "ort/ops/linear_inputs.h"
#include "ort/ops/ops.h"
#include "tensor/linear.h"
#include "tensor/linear_float.h"

namespace quarkfast::ort {

namespace {

template <class Q>
class QuantizeLinear {
 public:
  static constexpr bool kKeepsShape = true;
  static constexpr size_t kTypeOfInput = 2;

  explicit QuantizeLinear(const Node& node) : inputs_(node) { inputs_.template check_constants<Q>(node); }

  void operator()(const Run& run, In<F32> x, In<F32> scale, In<Q> zero_point, Out<Q> y) const {
    const ScaleLayout layout = inputs_.layout(x.shape, scale, zero_point);
    auto* out = y.allocate(x.shape);
    using Limits = std::numeric_limits<typename Q::storage>;
    if constexpr (Limits::is_integer) {
      quantize_linear(x.data, out, layout, scale.data, zero_point.data, {Limits::min(), Limits::max()}, run.pool());
    } else {
      quantize_float(x.data, out, layout, scale.data, zero_point.data, run.pool());
    }
  }

 private:
  LinearInputs inputs_;
};

}  // namespace

void add_quantize_linear(Definitions& definitions, const OrtApi* api) {
  for_each_type<U8, I8, U16, I16, U32, I32, F16, BF16>([&]<class Q>() {
    add_quark<QuantizeLinear<Q>>(definitions, api, "ExtendedQuantizeLinear", "VitisQuantizeLinear");
  });
}

}  // namespace quarkfast::ort
