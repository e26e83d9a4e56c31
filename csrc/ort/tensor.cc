#include "ort/tensor.h"

#include <algorithm>

namespace quarkfast::ort {

namespace {

// Owns the description of a tensor's type and shape, which ONNX Runtime allocates for the asker.
class Info {
 public:
  Info(const OrtApi* api, const OrtValue* value) : api_(api) {
    check(call<slot::GetTensorTypeAndShape>(api, value, &info_));
  }
  ~Info() { call<slot::ReleaseTensorTypeAndShapeInfo>(api_, info_); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  const OrtTensorTypeAndShapeInfo* get() const { return info_; }

 private:
  const OrtApi* api_;
  OrtTensorTypeAndShapeInfo* info_ = nullptr;
};

void require_rank(size_t rank) {
  if (rank <= kMaxRank) return;
  throw Error{"shape: expected at most " + std::to_string(kMaxRank) + " dimensions, got " + std::to_string(rank)};
}

}  // namespace

Shape::Shape(std::span<const int64_t> dims) : rank_(dims.size()) {
  require_rank(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

size_t Shape::product(size_t begin, size_t end) const {
  size_t product = 1;
  for (size_t axis = begin; axis < end; ++axis) product *= static_cast<size_t>(dims_[axis]);
  return product;
}

std::string Shape::text() const {
  std::string text = "(";
  for (size_t axis = 0; axis < rank_; ++axis) text += (axis == 0 ? "" : ", ") + std::to_string(dims_[axis]);
  return text + (rank_ == 1 ? ",)" : ")");
}

Shape shape_of(const OrtApi* api, const OrtValue* value) {
  const Info info(api, value);
  Shape shape;
  check(call<slot::GetDimensionsCount>(api, info.get(), &shape.rank_));
  require_rank(shape.rank_);
  check(call<slot::GetDimensions>(api, info.get(), shape.dims_.data(), shape.rank_));
  return shape;
}

const void* data_of(const OrtApi* api, const OrtValue* value) {
  void* data = nullptr;
  // The only accessor of the table takes a mutable value; it does not change it.
  check(call<slot::GetTensorMutableData>(api, const_cast<OrtValue*>(value), &data));
  return data;
}

}  // namespace quarkfast::ort
