// The list of operators: each file of this folder adds its own definitions.
#pragma once

#include <deque>

#include "ort/op.h"

namespace quarkfast::ort {

// AMD Quark's domain and the older one that it still registers, with the older names.
inline constexpr const char* kQuarkDomain = "com.amd.quark";
inline constexpr const char* kVaiDomain = "com.vai.quantize";
inline constexpr const char* kDomain = "quarkfast";

// A deque, because ONNX Runtime keeps the addresses of its elements.
using Definitions = std::deque<Definition>;

// Adds one operator of Quark's under both of its names.
template <class Op>
void add_quark(Definitions& definitions, const OrtApi* api, const char* name, const char* vai_name) {
  definitions.push_back(define<Op>(api, kQuarkDomain, name));
  definitions.push_back(define<Op>(api, kVaiDomain, vai_name));
}

// Calls visit.template operator()<E>() for each element type.
template <class... E, class Visit>
void for_each_type(Visit&& visit) {
  (visit.template operator()<E>(), ...);
}

void add_quantize_dequantize_block(Definitions& definitions, const OrtApi* api);
void add_quantize_linear(Definitions& definitions, const OrtApi* api);
void add_dequantize_linear(Definitions& definitions, const OrtApi* api);
void add_quantize_dequantize_linear(Definitions& definitions, const OrtApi* api);
void add_dequantize_block(Definitions& definitions, const OrtApi* api);
void add_instance_normalization(Definitions& definitions, const OrtApi* api);
void add_lstm(Definitions& definitions, const OrtApi* api);
void add_compare(Definitions& definitions, const OrtApi* api);
void add_observe(Definitions& definitions, const OrtApi* api);

}  // namespace quarkfast::ort
