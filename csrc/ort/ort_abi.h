// The part of ONNX Runtime's C ABI that quarkfast uses, declared by quarkfast itself.
//
// No package that quarkfast can depend on ships ONNX Runtime's headers, and they are not copied here, so that every
// function, field or enum value that the library comes to rely on is a deliberate, reviewed change. ONNX Runtime
// promises that the table of the API version that is asked for only ever grows at its end. Hence the one rule: ask for
// kOrtApiVersion, the version that the rows of ort_slots.inc and the fields of OrtCustomOp were written against, and
// never for the host's newest. docs/ort_abi.md tells how the declarations are kept true.
//
// Absent on purpose: everything that creates sessions, environments, tensors or allocators, sequences and maps,
// other execution providers, logging, OrtCustomOp fields after version 18.
//
// ONNX Runtime declares its functions _stdcall on Windows. On the 64-bit platforms that quarkfast builds for there is
// only one calling convention, so nothing is written here.
#pragma once

#include <cstddef>
#include <cstdint>

// Version 18 is the first whose OrtCustomOp can say that an output shares its input's memory.
inline constexpr uint32_t kOrtApiVersion = 18;
inline constexpr const char* kOldestOnnxRuntime = "1.18";

// Opaque: quarkfast only passes pointers to these around.
struct OrtApi;
struct OrtCustomOpDomain;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;  // a null pointer means success
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;

// Enums have C's int as underlying type. Values that quarkfast never produces or reads are left out.
enum OrtErrorCode : int {
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NOT_IMPLEMENTED = 9,
};

enum ONNXTensorElementDataType : int {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
};

enum OrtCustomOpInputOutputCharacteristic : int {
  INPUT_OUTPUT_REQUIRED = 0,
  INPUT_OUTPUT_OPTIONAL = 1,
};

enum OrtMemType : int {
  OrtMemTypeDefault = 0,
};

// What RegisterCustomOps receives. Its two fields can never change, because nothing tells which version it has.
struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);  // null when the host is older than the version
  const char* (*GetVersionString)();
};

// The table that quarkfast fills, one per operator and element type. ONNX Runtime reads the fields up to `version`.
struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);  // unused: cannot report an error
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);
  ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp*, size_t);
  size_t (*GetInputTypeCount)(const OrtCustomOp*);
  ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp*, size_t);
  size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)(void*, OrtKernelContext*);  // unused: cannot report an error
  void (*KernelDestroy)(void*);
  OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp*, size_t);
  OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp*, size_t);
  OrtMemType (*GetInputMemoryType)(const OrtCustomOp*, size_t);
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void**);
  OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*);
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
  int (*GetStartVersion)(const OrtCustomOp*);
  int (*GetEndVersion)(const OrtCustomOp*);
  size_t (*GetMayInplace)(int** inputs, int** outputs);
  void (*ReleaseMayInplace)(int* inputs, int* outputs);
  size_t (*GetAliasMap)(int** inputs, int** outputs);
  void (*ReleaseAliasMap)(int* inputs, int* outputs);
};

// One type per row of ort_slots.inc. ORT_SLOT is the project's only function-like macro.
namespace quarkfast::ort::slot {
#define ORT_SLOT(index_, since_, name_, ...)    \
  struct name_ {                                \
    using Signature = __VA_ARGS__;              \
    static constexpr size_t index = index_;     \
    static constexpr uint32_t since = since_;   \
    static constexpr const char* name = #name_; \
  };
#include "ort/ort_slots.inc"
#undef ORT_SLOT
}  // namespace quarkfast::ort::slot

namespace quarkfast::ort {

// Calls one function of the host's table, which is nothing but an array of function pointers.
template <class Slot, class... Args>
auto call(const OrtApi* api, Args... args) {
  const auto table = reinterpret_cast<void* const*>(api);
  return reinterpret_cast<typename Slot::Signature*>(table[Slot::index])(args...);
}

}  // namespace quarkfast::ort
