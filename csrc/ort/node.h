// What an operator can learn about its node when the session is created: attributes, constant inputs, ranks.
#pragma once

#include <optional>
#include <string>

#include "ort/tensor.h"

namespace quarkfast::ort {

class Node {
 public:
  Node(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  std::string name() const;

  // Attributes. Without a fallback the attribute is required. One of another type is an error, never the fallback.
  int64_t integer(const char* attribute, std::optional<int64_t> fallback = std::nullopt) const;
  float real(const char* attribute, std::optional<float> fallback = std::nullopt) const;
  std::string text(const char* attribute, std::optional<std::string> fallback = std::nullopt) const;

  // The rank of an input; nothing when the model does not say (ONNX Runtime shows an unknown rank as 0).
  std::optional<size_t> rank(size_t input) const;

  // An input that is an initializer; its data is null when the input is computed while the model runs.
  template <class E>
  In<E> constant(size_t input) const {
    return In<E>(api_, constant_value(input));
  }

 private:
  bool has(const char* attribute) const;
  [[noreturn]] void reject(const char* attribute, const char* type) const;
  const OrtValue* constant_value(size_t input) const;

  const OrtApi* api_;
  const OrtKernelInfo* info_;
};

}  // namespace quarkfast::ort
