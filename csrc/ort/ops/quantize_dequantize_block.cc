// BFPQuantizeDequantize (BFPFixNeuron) and MXQuantizeDequantize (MXFixNeuron): values rounded to what a block format
// can hold. docs/operators.md has the details.
#include <algorithm>
#include <vector>

#include "dispatch.h"
#include "elementwise.h"
#include "ort/ops/block_attributes.h"
#include "ort/ops/ops.h"

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
    const Pool pool = run.pool();
    if (through_bf16_) {
      quantize_bf16(x, out, layout, pool);
    } else {
      quantize(x.data, out, layout, pool);
    }
  }

 private:
  using T = typename E::storage;

  template <class Value>
  void quantize(const Value* x, Value* y, const BlockLayout& layout, const Pool& pool) const {
    // Quark leaves a single value as it is.
    if (layout.size() == 1) {
      *y = *x;
      return;
    }
    std::visit([&](const auto& params) { fake_quantize_blocks(x, y, layout, params, pool); }, params_);
  }

  // The same with the input rounded to bfloat16 first.
  void quantize_bf16(const In<E>& x, T* y, const BlockLayout& layout, const Pool& pool) const {
    const Kernels& k = active();
    if constexpr (std::is_same_v<T, float>) {
      elementwise(k.round_f32_bf16, x.data, y, x.size, pool);
      quantize(y, y, layout, pool);
    } else if constexpr (std::is_same_v<T, bf16>) {
      quantize(x.data, y, layout, pool);
    } else {
      // Values from 65408 up round to 65536, which float16 cannot hold: a whole copy in float32, for a rare choice.
      std::vector<float> wide(x.size);
      elementwise(k.cast_f16_f32, x.data, wide.data(), x.size, pool);
      elementwise(k.round_f32_bf16, wide.data(), wide.data(), x.size, pool);
      quantize(wide.data(), wide.data(), layout, pool);
      elementwise(k.cast_f32_f16, wide.data(), y, x.size, pool);
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
