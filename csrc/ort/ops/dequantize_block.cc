// quarkfast::DequantizeBlock: reads packed block formats, so that a file is as small as its format says.
// docs/operators.md has the details.
#include <cmath>
#include <cstring>
#include <vector>

#include "ort/ops/axis.h"
#include "ort/ops/block_attributes.h"
#include "ort/ops/ops.h"

namespace quarkfast::ort {

namespace {

template <class E>
class DequantizeBlock {
 public:
  explicit DequantizeBlock(const Node& node)
      : params_(read_packed(node)), axis_(node.integer("axis", -1)), length_(node.integer("length")) {
    if (length_ < 0) throw Error{"attribute 'length': expected 0 or more, got " + std::to_string(length_)};
    if (const auto rank = node.rank(0)) checked_rank(*rank);
    if (const In<U8> records = node.constant<U8>(0); records.data != nullptr) {
      result_shape(records.shape);
      check_scales(records);
      scales_are_checked_ = true;
    }
  }

  // `like` only lends its element type to the result.
  void operator()(const Run& run, In<U8> records, In<E> /*like*/, Out<E> y) const {
    const Shape shape = result_shape(records.shape);
    if (!scales_are_checked_) check_scales(records);
    const BlockLayout layout = block_layout(shape, axis_);
    auto* out = y.allocate(shape);
    std::visit([&](const auto& params) { dequantize_blocks(records.data, out, layout, params, run.pool()); }, params_);
  }

 private:
  // Records have one dimension more than the result: blocks and bytes stand for the axis, at the end.
  size_t checked_rank(size_t rank) const {
    if (rank < 2) {
      throw Error{"records: expected 2 or more dimensions, the last two being blocks and bytes, got " +
                  std::to_string(rank)};
    }
    return normalized_axis(axis_, rank - 1);
  }

  // Of the formats, only linear has scales that can be wrong.
  void check_scales(const In<U8>& records) const {
    const auto* linear = std::get_if<LinearBlockParams>(&params_);
    if (linear == nullptr) return;
    for (size_t at = 0; at < records.size; at += record_bytes(*linear)) {
      float scale;
      std::memcpy(&scale, records.data + at, sizeof(scale));
      if (std::isfinite(scale) && scale > 0) continue;
      throw Error{"records: expected finite scales greater than 0, got " + std::to_string(scale) + " in record " +
                  std::to_string(at / record_bytes(*linear))};
    }
  }

  Shape result_shape(const Shape& records) const {
    const size_t axis = checked_rank(records.rank()), rank = records.rank() - 1;
    const size_t block = std::visit([](const auto& params) { return params.block; }, params_);
    const auto bytes =
        static_cast<int64_t>(std::visit([](const auto& params) { return record_bytes(params); }, params_));
    const int64_t blocks = (length_ + static_cast<int64_t>(block) - 1) / static_cast<int64_t>(block);
    if (records[rank - 1] != blocks || records[rank] != bytes) {
      throw Error{"records: expected shape (..., " + std::to_string(blocks) + ", " + std::to_string(bytes) + ") for " +
                  std::to_string(length_) + " elements along the axis, got " + records.text()};
    }
    std::vector<int64_t> dims(records.dims().begin(), records.dims().end() - 2);
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), length_);
    return Shape(dims);
  }

  PackedParams params_;
  bool scales_are_checked_ = false;
  int64_t axis_;
  int64_t length_;
};

}  // namespace

void add_dequantize_block(Definitions& definitions, const OrtApi* api) {
  for_each_type<F32, F16, BF16>(
      [&]<class E>() { definitions.push_back(define<DequantizeBlock<E>>(api, kDomain, "DequantizeBlock")); });
}

}  // namespace quarkfast::ort
