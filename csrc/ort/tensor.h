// Typed views of the tensors that ONNX Runtime hands to an operator. They live on the stack and own nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "numerics/types.h"
#include "ort/error.h"

namespace quarkfast::ort {

// Element types: the storage that kernels see, and ONNX's number. Named apart from quarkfast::f16 and quarkfast::bf16,
// which are storage.
template <class Storage, ONNXTensorElementDataType kOnnx>
struct Element {
  using storage = Storage;
  static constexpr ONNXTensorElementDataType onnx = kOnnx;
};
using F32 = Element<float, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT>;
using F64 = Element<double, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE>;
using F16 = Element<f16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16>;
using BF16 = Element<bf16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16>;
using U8 = Element<uint8_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8>;
using I8 = Element<int8_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8>;
using U16 = Element<uint16_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16>;
using I16 = Element<int16_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16>;
using U32 = Element<uint32_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32>;
using I32 = Element<int32_t, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32>;

// Models seen in the wild stop at 8 dimensions; twice that costs 128 bytes of stack and no allocation.
inline constexpr size_t kMaxRank = 16;

class Shape {
 public:
  Shape() = default;
  explicit Shape(std::span<const int64_t> dims);

  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  // Number of elements in the dimensions [begin, end).
  size_t product(size_t begin, size_t end) const;
  size_t size() const { return product(0, rank_); }
  std::string text() const;  // "(2, 3)"

 private:
  friend Shape shape_of(const OrtApi* api, const OrtValue* value);
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

Shape shape_of(const OrtApi* api, const OrtValue* value);
const void* data_of(const OrtApi* api, const OrtValue* value);

// A tensor to read. `data` is null when the input is absent (or, in a Node, not constant).
template <class E>
struct In {
  using element = E;
  const typename E::storage* data = nullptr;
  Shape shape;
  size_t size = 0;

  In() = default;
  In(const OrtApi* api, const OrtValue* value) {
    if (value == nullptr) return;
    data = static_cast<const typename E::storage*>(data_of(api, value));
    shape = shape_of(api, value);
    size = shape.size();
  }
  std::span<const typename E::storage> values() const { return {data, size}; }
};

// A tensor to write: ONNX Runtime allocates it once its shape is known.
template <class E>
class Out {
 public:
  using element = E;
  Out(const OrtApi* api, OrtKernelContext* context, size_t index) : api_(api), context_(context), index_(index) {}

  typename E::storage* allocate(const Shape& shape) const {
    OrtValue* value = nullptr;
    check(call<slot::KernelContext_GetOutput>(api_, context_, index_, shape.dims().data(), shape.rank(), &value));
    void* data = nullptr;
    check(call<slot::GetTensorMutableData>(api_, value, &data));
    return static_cast<typename E::storage*>(data);
  }

 private:
  const OrtApi* api_;
  OrtKernelContext* context_;
  size_t index_;
};

}  // namespace quarkfast::ort
