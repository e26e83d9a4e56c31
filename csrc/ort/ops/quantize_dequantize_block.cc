// BFPQuantizeDequantize (BFPFixNeuron) and MXQuantizeDequantize (MXFixNeuron): values rounded to what a block format
// can hold. docs/operators.md has the details.
#include <type_traits>

#include "ort/ops/block_attributes.h"
#include "ort/ops/ops.h"
#include "runtime/dispatch.h"
#include "tensor/half_precision.h"

namespace quarkfast::ort {

namespace {

struct Bfp {
  static BlockParams read(const Node& node) { return read_bfp(node); }
};

struct Mx {
  static BlockParams read(const Node& node) { return read_mx(node); }
};

template <class E, class Format>
class QuantizeDequantizeBlock {
 public:
  static constexpr bool kKeepsShape = true;
  static constexpr bool kMayInPlace = true;
  static constexpr size_t kTypeOfInput = 0;

  explicit QuantizeDequantizeBlock(const Node& node)
      : params_(Format::read(node)),
        axis_(read_block_axis(node)),
        through_bf16_(node.integer("convert_to_bfloat_before_bfp", 0) != 0) {}

  void operator()(const Run& run, In<E> x, Out<E> y) const {
    const BlockLayout layout = block_layout(x.shape, axis_);
    auto* out = y.allocate(x.shape);
    if (layout.size() == 1) return pass(x.data, out);
    std::visit([&](const auto& p) { fake_quantize_blocks(x.data, out, layout, p, run.pool(), through_bf16_); },
               params_);
  }

 private:
  using T = typename E::storage;

  // Quark leaves a single value as it is, but for the round to bfloat16.
  void pass(const T* x, T* y) const {
    *y = *x;
    if (!through_bf16_ || std::is_same_v<T, bf16>) return;
    const Kernels& k = active();
    if constexpr (std::is_same_v<T, float>) {
      k.round_trip_f32_bf16(x, y, 1);
    } else {
      float wide;
      widen(k, x, &wide, 1);
      k.round_trip_f32_bf16(&wide, &wide, 1);
      narrow(k, &wide, y, 1);
    }
  }

  BlockParams params_;
  int64_t axis_;
  bool through_bf16_;
};

}  // namespace

void add_quantize_dequantize_block(Definitions& definitions, const OrtApi* api) {
  for_each_type<F32, F16, BF16>([&]<class E>() {
    add_quark<QuantizeDequantizeBlock<E, Bfp>>(definitions, api, "BFPQuantizeDequantize", "BFPFixNeuron");
    add_quark<QuantizeDequantizeBlock<E, Mx>>(definitions, api, "MXQuantizeDequantize", "MXFixNeuron");
  });
}

}  // namespace quarkfast::ort
