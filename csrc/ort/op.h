// Turns a plain C++ type into operators of ONNX Runtime. An operator is a class with
//
//   explicit Op(const Node& node);                                    reads and checks attributes, once per node
//   void operator()(const Run& run, In<F32> x, ..., Out<U8> y) const; computes; may run on many threads at once
//
// and, where they apply, the constants
//
//   static constexpr bool kKeepsShape = true;     output 0 has the shape of input 0
//   static constexpr size_t kTypeOfInput = 2;     overloads differ in the type of output 0: it is that of this input
//   static constexpr bool kMayInPlace = true;     output 0 may be written over input 0
//   static constexpr bool kAliasesInput = true;   output 0 always shares the memory of input 0
//
// The element types of inputs and outputs are read off the call operator's signature. Both functions fail by throwing
// Error; the trampolines below are noexcept and hand a status to ONNX Runtime.
#pragma once

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "ort/node.h"
#include "ort/run.h"

namespace quarkfast::ort {

// One operator for one set of element types under one name, for one host.
struct Definition : OrtCustomOp {
  const OrtApi* api;
  const char* domain;
  const char* name;
};

namespace detail {

template <class Argument>
inline constexpr bool is_input = false;
template <class E>
inline constexpr bool is_input<In<E>> = true;

// What the type of an operator's call operator says about its inputs and outputs.
template <class Method>
struct Signature;
template <class Op, class... Arguments>
struct Signature<void (Op::*)(const Run&, Arguments...) const> {
  static constexpr size_t inputs = (size_t{is_input<Arguments>} + ... + 0);
  static constexpr size_t outputs = sizeof...(Arguments) - inputs;
  // Inputs come first, outputs follow.
  static constexpr std::array<ONNXTensorElementDataType, sizeof...(Arguments)> types{Arguments::element::onnx...};

  static void compute(const Op& op, const Run& run) { compute(op, run, std::index_sequence_for<Arguments...>{}); }

 private:
  template <size_t... kIndex>
  static void compute(const Op& op, const Run& run, std::index_sequence<kIndex...>) {
    op(run, argument<Arguments>(run, kIndex)...);
  }

  template <class Argument>
  static Argument argument(const Run& run, size_t index) {
    if constexpr (is_input<Argument>) {
      return Argument(run.api, run.input(index));
    } else {
      return Argument(run.api, run.context, index - inputs);
    }
  }
};
template <class Op>
using SignatureOf = Signature<decltype(&Op::operator())>;

// Runs `body` and turns whatever it throws into a status. `where` names the operator and the node.
template <class Body>
OrtStatus* guard(const OrtApi* api, const std::string& where, Body&& body) {
  try {
    body();
    return nullptr;
  } catch (const HostError& error) {
    return error.status;
  } catch (const Error& error) {
    return call<slot::CreateStatus>(api, error.code, (where + ": " + error.text).c_str());
  } catch (const std::exception& error) {
    return call<slot::CreateStatus>(api, ORT_FAIL, (where + ": " + error.what()).c_str());
  }
}

// The last line of defence: only building an error's text can throw here, when memory is exhausted.
template <class Body>
OrtStatus* boundary(const OrtApi* api, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return call<slot::CreateStatus>(api, ORT_FAIL, "quarkfast: out of memory");
  }
}

template <class Op>
struct Kernel {
  const OrtApi* api;
  std::string where;
  Op op;
};

template <class Op>
OrtStatus* create(const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info, void** kernel) noexcept {
  const auto& definition = *static_cast<const Definition*>(self);
  return boundary(api, [&] {
    const Node node(api, info);
    const std::string where = std::string(definition.domain) + "." + definition.name + " '" + node.name() + "'";
    return guard(api, where, [&] { *kernel = new Kernel<Op>{api, where, Op(node)}; });
  });
}

template <class Op>
OrtStatus* compute(void* state, OrtKernelContext* context) noexcept {
  const auto& kernel = *static_cast<const Kernel<Op>*>(state);
  return boundary(kernel.api, [&] {
    return guard(kernel.api, kernel.where, [&] { SignatureOf<Op>::compute(kernel.op, Run{kernel.api, context}); });
  });
}

template <class Op>
void destroy(void* state) noexcept {
  delete static_cast<Kernel<Op>*>(state);
}

// The element type of an output: given, or where it differs between overloads, that of an input.
struct OutputType {
  ONNXTensorElementDataType type;  // UNDEFINED: like the input
  size_t like_input;
};

// Gives output 0 the shape of input 0, if the model states it completely.
void keep_shape(const OrtApi* api, OrtShapeInferContext* context, OutputType output);

template <class Op>
OrtStatus* infer_shape(const OrtCustomOp* self, OrtShapeInferContext* context) noexcept {
  const auto& definition = *static_cast<const Definition*>(self);
  return boundary(definition.api, [&] {
    return guard(definition.api, definition.name, [&] {
      if constexpr (requires { Op::kTypeOfInput; }) {
        keep_shape(definition.api, context, {ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, Op::kTypeOfInput});
      } else {
        keep_shape(definition.api, context, {SignatureOf<Op>::types[SignatureOf<Op>::inputs], 0});
      }
    });
  });
}

// The pairs (input 0, output 0) for may-in-place and alias map. ONNX Runtime only reads them.
size_t first_to_first(int** inputs, int** outputs) noexcept;
void release_nothing(int* inputs, int* outputs) noexcept;

}  // namespace detail

template <class Op>
Definition define(const OrtApi* api, const char* domain, const char* name) {
  using Signature = detail::SignatureOf<Op>;
  Definition definition{};
  definition.api = api;
  definition.domain = domain;
  definition.name = name;
  definition.version = kOrtApiVersion;
  definition.GetName = [](const OrtCustomOp* op) { return static_cast<const Definition*>(op)->name; };
  definition.GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
  definition.GetInputType = [](const OrtCustomOp*, size_t index) { return Signature::types[index]; };
  definition.GetInputTypeCount = [](const OrtCustomOp*) { return Signature::inputs; };
  definition.GetOutputType = [](const OrtCustomOp*, size_t index) {
    return Signature::types[Signature::inputs + index];
  };
  definition.GetOutputTypeCount = [](const OrtCustomOp*) { return Signature::outputs; };
  definition.GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  definition.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  definition.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  definition.CreateKernelV2 = detail::create<Op>;
  definition.KernelComputeV2 = detail::compute<Op>;
  definition.KernelDestroy = detail::destroy<Op>;
  definition.GetStartVersion = [](const OrtCustomOp*) { return 1; };
  definition.ReleaseMayInplace = detail::release_nothing;
  definition.ReleaseAliasMap = detail::release_nothing;
  if constexpr (requires { Op::kKeepsShape; }) definition.InferOutputShapeFn = detail::infer_shape<Op>;
  if constexpr (requires { Op::kMayInPlace; }) definition.GetMayInplace = detail::first_to_first;
  if constexpr (requires { Op::kAliasesInput; }) definition.GetAliasMap = detail::first_to_first;
  return definition;
}

}  // namespace quarkfast::ort
