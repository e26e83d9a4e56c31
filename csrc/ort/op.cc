#include "ort/op.h"

#include <algorithm>

namespace quarkfast::ort::detail {

namespace {

// True when every dimension is a number or has a name. ONNX Runtime shows an unknown rank as no dimensions at all and
// an unknown dimension as -1 without a name; handing those on would turn "unknown" into a wrong statement.
bool is_known(const OrtApi* api, const OrtTensorTypeAndShapeInfo* info) {
  size_t rank = 0;
  check(call<slot::GetDimensionsCount>(api, info, &rank));
  if (rank == 0 || rank > kMaxRank) return false;
  std::array<int64_t, kMaxRank> dims{};
  std::array<const char*, kMaxRank> names{};
  check(call<slot::GetDimensions>(api, info, dims.data(), rank));
  check(call<slot::GetSymbolicDimensions>(api, info, names.data(), rank));
  for (size_t axis = 0; axis < rank; ++axis) {
    if (dims[axis] < 0 && (names[axis] == nullptr || *names[axis] == '\0')) return false;
  }
  return true;
}

}  // namespace

void keep_shape(const OrtApi* api, OrtShapeInferContext* context, OutputType output) {
  OrtTensorTypeAndShapeInfo* info = nullptr;  // owned by the context, and so are the others
  check(call<slot::ShapeInferContext_GetInputTypeShape>(api, context, size_t{0}, &info));
  if (!is_known(api, info)) return;
  ONNXTensorElementDataType type = output.type;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
    OrtTensorTypeAndShapeInfo* source = nullptr;
    check(call<slot::ShapeInferContext_GetInputTypeShape>(api, context, output.like_input, &source));
    check(call<slot::GetTensorElementType>(api, source, &type));
  }
  // From version 1.19 or a little later on, ONNX Runtime takes the type of the output from here too.
  check(call<slot::SetTensorElementType>(api, info, type));
  check(call<slot::ShapeInferContext_SetOutputTypeShape>(api, context, size_t{0}, info));
}

size_t first_to_first(int** inputs, int** outputs) noexcept {
  static int zero[1] = {0};
  *inputs = zero;
  *outputs = zero;
  return 1;
}

void release_nothing(int*, int*) noexcept {}

}  // namespace quarkfast::ort::detail
