// ONNX Runtime from the side of a program: sessions of models that use quarkfast's library, from Windows'
// onnxruntime.dll. Its functions are taken from their slots, as csrc/ort/ort_abi.h takes those that the library needs.
#pragma once

#include <windows.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ort/ort_abi.h"

struct OrtEnv;
struct OrtMemoryInfo;
struct OrtSession;

namespace quarkfast::test {

using ort::call;

template <size_t Index, class Function>
struct Slot {
  using Signature = Function;
  static constexpr size_t index = Index;
};

using GetErrorMessage = Slot<2, const char*(const OrtStatus*)>;
using CreateEnv = Slot<3, OrtStatus*(int, const char*, OrtEnv**)>;
using CreateSession = Slot<7, OrtStatus*(const OrtEnv*, const wchar_t*, const OrtSessionOptions*, OrtSession**)>;
using RunSession = Slot<9, OrtStatus*(OrtSession*, const void*, const char* const*, const OrtValue* const*, size_t,
                                      const char* const*, size_t, OrtValue**)>;
using CreateSessionOptions = Slot<10, OrtStatus*(OrtSessionOptions**)>;
using SetIntraOpNumThreads = Slot<24, OrtStatus*(OrtSessionOptions*, int)>;
using CreateTensorWithData = Slot<49, OrtStatus*(const OrtMemoryInfo*, void*, size_t, const int64_t*, size_t,
                                                 ONNXTensorElementDataType, OrtValue**)>;
using CreateCpuMemoryInfo = Slot<69, OrtStatus*(int, int, OrtMemoryInfo**)>;
using ReleaseEnv = Slot<92, void(OrtEnv*)>;
using ReleaseMemoryInfo = Slot<94, void(OrtMemoryInfo*)>;
using ReleaseSession = Slot<95, void(OrtSession*)>;
using ReleaseValue = Slot<96, void(OrtValue*)>;
using ReleaseSessionOptions = Slot<100, void(OrtSessionOptions*)>;
using RegisterLibrary = Slot<228, OrtStatus*(OrtSessionOptions*, const wchar_t*)>;

// A tensor as tests/ports/tensor_files.py writes it: type, rank, sizes, all int64, and the bytes.
struct Tensor {
  int64_t type = 0;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

[[noreturn]] inline void fail(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::exit(1);
}

inline Tensor read_tensor(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("expected a file at " + path + ", got none");
  Tensor tensor;
  const auto read = [&](int64_t& value) { file.read(reinterpret_cast<char*>(&value), sizeof value); };
  int64_t rank = 0;
  read(tensor.type);
  read(rank);
  tensor.shape.resize(static_cast<size_t>(rank));
  for (int64_t& size : tensor.shape) read(size);
  tensor.bytes.assign(std::istreambuf_iterator<char>(file), {});
  return tensor;
}

inline void write_tensor(const std::string& path, const Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&](int64_t value) { file.write(reinterpret_cast<const char*>(&value), sizeof value); };
  write(tensor.type);
  write(static_cast<int64_t>(tensor.shape.size()));
  for (const int64_t size : tensor.shape) write(size);
  file.write(tensor.bytes.data(), static_cast<std::streamsize>(tensor.bytes.size()));
}

// onnxruntime.dll and quarkfast.dll of the program's own folder.
class Runtime {
 public:
  explicit Runtime(int threads) {
    const HMODULE library = LoadLibraryW(L"onnxruntime.dll");
    if (library == nullptr) fail("expected onnxruntime.dll beside the program, got Windows' error " + error());
    const auto base =
        reinterpret_cast<const OrtApiBase* (*)()>(reinterpret_cast<void*>(GetProcAddress(library, "OrtGetApiBase")))();
    api_ = base->GetApi(kOrtApiVersion);
    constexpr int kErrors = 3;
    check(call<CreateEnv>(api_, kErrors, "quarkfast", &env_));
    check(call<CreateSessionOptions>(api_, &options_));
    check(call<SetIntraOpNumThreads>(api_, options_, threads));
    check(call<RegisterLibrary>(api_, options_, L"quarkfast.dll"));
    constexpr int kArena = 1, kDefault = 0;
    check(call<CreateCpuMemoryInfo>(api_, kArena, kDefault, &memory_));
  }

  // Closes what it opened: ONNX Runtime then gives the library back.
  ~Runtime() {
    call<ReleaseMemoryInfo>(api_, memory_);
    call<ReleaseSessionOptions>(api_, options_);
    call<ReleaseEnv>(api_, env_);
  }

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  std::vector<Tensor> run(const std::string& model, const std::vector<const char*>& inputs, std::vector<Tensor> given,
                          const std::vector<const char*>& outputs) const {
    OrtSession* session = nullptr;
    const std::wstring path(model.begin(), model.end());
    check(call<CreateSession>(api_, env_, path.c_str(), options_, &session));
    std::vector<OrtValue*> values(inputs.size()), results(outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      check(call<CreateTensorWithData>(api_, memory_, given[i].bytes.data(), given[i].bytes.size(),
                                       given[i].shape.data(), given[i].shape.size(),
                                       static_cast<ONNXTensorElementDataType>(given[i].type), &values[i]));
    }
    check(call<RunSession>(api_, session, nullptr, inputs.data(), values.data(), inputs.size(), outputs.data(),
                           outputs.size(), results.data()));
    std::vector<Tensor> made;
    for (OrtValue* result : results) made.push_back(tensor_of(result));
    for (OrtValue* value : values) call<ReleaseValue>(api_, value);
    for (OrtValue* value : results) call<ReleaseValue>(api_, value);
    call<ReleaseSession>(api_, session);
    return made;
  }

 private:
  static std::string error() { return std::to_string(GetLastError()); }

  void check(OrtStatus* status) const {
    if (status != nullptr) fail(call<GetErrorMessage>(api_, status));
  }

  Tensor tensor_of(OrtValue* value) const {
    namespace slot = ort::slot;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(call<slot::GetTensorTypeAndShape>(api_, value, &info));
    ONNXTensorElementDataType type{};
    size_t rank = 0;
    check(call<slot::GetTensorElementType>(api_, info, &type));
    check(call<slot::GetDimensionsCount>(api_, info, &rank));
    Tensor tensor{type, std::vector<int64_t>(rank), {}};
    check(call<slot::GetDimensions>(api_, info, tensor.shape.data(), rank));
    call<slot::ReleaseTensorTypeAndShapeInfo>(api_, info);
    size_t bytes = size_of(type);
    for (const int64_t size : tensor.shape) bytes *= static_cast<size_t>(size);
    void* data = nullptr;
    check(call<slot::GetTensorMutableData>(api_, value, &data));
    tensor.bytes.assign(static_cast<char*>(data), static_cast<char*>(data) + bytes);
    return tensor;
  }

  static size_t size_of(ONNXTensorElementDataType type) {
    switch (type) {
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
        return 1;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
        return 2;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        return 4;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
        return 8;
      default:
        fail("expected an output of a type that models of tests/ports have, got " + std::to_string(type));
    }
  }

  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
};

}  // namespace quarkfast::test
