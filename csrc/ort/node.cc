#include "ort/node.h"

namespace quarkfast::ort {

std::string Node::name() const {
  size_t size = 0;  // counts the terminating zero
  check(call<slot::KernelInfo_GetNodeName>(api_, info_, nullptr, &size));
  std::string name(size, '\0');
  check(call<slot::KernelInfo_GetNodeName>(api_, info_, name.data(), &size));
  name.resize(size - 1);
  return name;
}

int64_t Node::integer(const char* attribute, std::optional<int64_t> fallback) const {
  int64_t value = 0;
  if (succeeded(api_, call<slot::KernelInfoGetAttribute_int64>(api_, info_, attribute, &value))) return value;
  if (has(attribute) || !fallback) reject(attribute, "an integer");
  return *fallback;
}

float Node::real(const char* attribute, std::optional<float> fallback) const {
  float value = 0;
  if (succeeded(api_, call<slot::KernelInfoGetAttribute_float>(api_, info_, attribute, &value))) return value;
  if (has(attribute) || !fallback) reject(attribute, "a float");
  return *fallback;
}

std::string Node::text(const char* attribute, std::optional<std::string> fallback) const {
  size_t size = 0;  // counts the terminating zero
  if (succeeded(api_, call<slot::KernelInfoGetAttribute_string>(api_, info_, attribute, nullptr, &size))) {
    std::string value(size, '\0');
    check(call<slot::KernelInfoGetAttribute_string>(api_, info_, attribute, value.data(), &size));
    value.resize(size - 1);
    return value;
  }
  if (has(attribute) || !fallback) reject(attribute, "a string");
  return *fallback;
}

std::optional<size_t> Node::rank(size_t input) const {
  OrtTypeInfo* type = nullptr;
  check(call<slot::KernelInfo_GetInputTypeInfo>(api_, info_, input, &type));
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  size_t rank = 0;
  OrtStatus* status = call<slot::CastTypeInfoToTensorInfo>(api_, type, &tensor);
  if (status == nullptr) status = call<slot::GetDimensionsCount>(api_, tensor, &rank);
  call<slot::ReleaseTypeInfo>(api_, type);
  check(status);
  return rank == 0 ? std::nullopt : std::optional(rank);
}

const OrtValue* Node::constant_value(size_t input) const {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  check(call<slot::KernelInfoGetConstantInput_tensor>(api_, info_, input, &is_constant, &value));
  return is_constant != 0 ? value : nullptr;
}

// The table has one getter per type and none that asks whether an attribute exists.
bool Node::has(const char* attribute) const {
  int64_t integer = 0;
  float real = 0;
  size_t size = 0;
  return succeeded(api_, call<slot::KernelInfoGetAttribute_int64>(api_, info_, attribute, &integer)) ||
         succeeded(api_, call<slot::KernelInfoGetAttribute_float>(api_, info_, attribute, &real)) ||
         succeeded(api_, call<slot::KernelInfoGetAttribute_string>(api_, info_, attribute, nullptr, &size)) ||
         succeeded(api_, call<slot::KernelInfoGetAttributeArray_int64>(api_, info_, attribute, nullptr, &size)) ||
         succeeded(api_, call<slot::KernelInfoGetAttributeArray_float>(api_, info_, attribute, nullptr, &size));
}

void Node::reject(const char* attribute, const char* type) const {
  const char* got = has(attribute) ? "another type" : "nothing";
  throw Error{std::string("attribute '") + attribute + "': expected " + type + ", got " + got};
}

}  // namespace quarkfast::ort
