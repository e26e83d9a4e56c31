// A library of test operators. Probe makes a round trip through every row of csrc/ort/ort_slots.inc and compares what
// comes back with what tests/ort/probe_session.py put into the model. Same tells whether two tensors share their
// memory. Race is wrong on purpose. quarkfast does not ship this library.
//
// Before each step it writes the row's name to stderr, so that even a crash names the row that lied.
// QUARKFAST_PROBE_SHIFT=<name> plays a host in which that row's index is off by one: the probe must then fail.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "export.h"
#include "ort/ort_abi.h"

namespace {

using quarkfast::ort::call;
namespace slot = quarkfast::ort::slot;

constexpr size_t kTableSize = 280;  // functions up to version 18

const OrtApi* g_api = nullptr;

template <class Slot>
void step() {
  std::fprintf(stderr, "probe: %s\n", Slot::name);
  std::fflush(stderr);
}

// Thrown with the name of the row whose answer was not the expected one.
struct Lie {
  std::string text;
};

template <class Slot>
void require(bool truth) {
  if (!truth) throw Lie{std::string("the probe was lied to by ") + Slot::name};
}

template <class Slot, class... Args>
void ask(Args... args) {
  step<Slot>();
  OrtStatus* status = call<Slot>(g_api, args...);
  if (status != nullptr) throw Lie{std::string("the probe was refused by ") + Slot::name};
}

template <class Slot, class... Args>
void release(Args... args) {
  step<Slot>();
  call<Slot>(g_api, args...);
}

template <class Body>
OrtStatus* boundary(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Lie& lie) {
    std::fprintf(stderr, "%s\n", lie.text.c_str());
    step<slot::CreateStatus>();
    return call<slot::CreateStatus>(g_api, ORT_INVALID_ARGUMENT, lie.text.c_str());
  }
}

void probe_attributes(const OrtKernelInfo* info) {
  int64_t integer = 0;
  ask<slot::KernelInfoGetAttribute_int64>(info, "integer", &integer);
  require<slot::KernelInfoGetAttribute_int64>(integer == 7);
  float real = 0;
  ask<slot::KernelInfoGetAttribute_float>(info, "real", &real);
  require<slot::KernelInfoGetAttribute_float>(real == 0.5f);
  std::array<char, 8> text{};
  size_t size = text.size();
  ask<slot::KernelInfoGetAttribute_string>(info, "text", text.data(), &size);
  require<slot::KernelInfoGetAttribute_string>(size == 6 && std::strcmp(text.data(), "probe") == 0);
  std::array<int64_t, 3> integers{};
  size = integers.size();
  ask<slot::KernelInfoGetAttributeArray_int64>(info, "integers", integers.data(), &size);
  require<slot::KernelInfoGetAttributeArray_int64>(size == 3 && integers[0] == 1 && integers[2] == 3);
  std::array<float, 2> reals{};
  size = reals.size();
  ask<slot::KernelInfoGetAttributeArray_float>(info, "reals", reals.data(), &size);
  require<slot::KernelInfoGetAttributeArray_float>(size == 2 && reals[0] == 0.5f && reals[1] == 1.5f);
  step<slot::ReleaseStatus>();
  OrtStatus* status = call<slot::KernelInfoGetAttribute_int64>(g_api, info, "absent", &integer);
  require<slot::KernelInfoGetAttribute_int64>(status != nullptr);
  call<slot::ReleaseStatus>(g_api, status);
}

void probe_node(const OrtKernelInfo* info) {
  std::array<char, 16> name{};
  size_t size = name.size();
  ask<slot::KernelInfo_GetNodeName>(info, name.data(), &size);
  require<slot::KernelInfo_GetNodeName>(std::strcmp(name.data(), "the node") == 0);

  OrtTypeInfo* type = nullptr;  // of input 1, which is w: (3,)
  ask<slot::KernelInfo_GetInputTypeInfo>(info, size_t{1}, &type);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ask<slot::CastTypeInfoToTensorInfo>(type, &tensor);
  require<slot::CastTypeInfoToTensorInfo>(tensor != nullptr);
  size_t rank = 0;
  ask<slot::GetDimensionsCount>(tensor, &rank);
  require<slot::GetDimensionsCount>(rank == 1);
  release<slot::ReleaseTypeInfo>(type);

  int constant = -1;
  const OrtValue* value = nullptr;
  ask<slot::KernelInfoGetConstantInput_tensor>(info, size_t{0}, &constant, &value);
  require<slot::KernelInfoGetConstantInput_tensor>(constant == 0);
  ask<slot::KernelInfoGetConstantInput_tensor>(info, size_t{1}, &constant, &value);
  require<slot::KernelInfoGetConstantInput_tensor>(constant == 1 && value != nullptr);
}

void* data_of(const OrtValue* value) {
  void* data = nullptr;
  ask<slot::GetTensorMutableData>(const_cast<OrtValue*>(value), &data);
  require<slot::GetTensorMutableData>(data != nullptr);
  return data;
}

// Reads x, (2, 3) holding 0 to 5, and writes y = 2 * x.
void probe_compute(OrtKernelContext* context) {
  const OrtValue* x = nullptr;
  ask<slot::KernelContext_GetInput>(static_cast<const OrtKernelContext*>(context), size_t{0}, &x);
  require<slot::KernelContext_GetInput>(x != nullptr);
  const auto* in = static_cast<const float*>(data_of(x));
  for (int i = 0; i < 6; ++i) require<slot::GetTensorMutableData>(in[i] == static_cast<float>(i));

  OrtTensorTypeAndShapeInfo* info = nullptr;
  ask<slot::GetTensorTypeAndShape>(x, &info);
  std::array<int64_t, 2> dims{};
  size_t rank = 0;
  ask<slot::GetDimensionsCount>(static_cast<const OrtTensorTypeAndShapeInfo*>(info), &rank);
  require<slot::GetDimensionsCount>(rank == 2);
  ask<slot::GetDimensions>(static_cast<const OrtTensorTypeAndShapeInfo*>(info), dims.data(), rank);
  require<slot::GetDimensions>(dims[0] == 2 && dims[1] == 3);
  release<slot::ReleaseTensorTypeAndShapeInfo>(info);

  OrtValue* y = nullptr;
  ask<slot::KernelContext_GetOutput>(context, size_t{0}, dims.data(), rank, &y);
  require<slot::KernelContext_GetOutput>(y != nullptr);
  auto* out = static_cast<float*>(data_of(y));
  for (int i = 0; i < 6; ++i) out[i] = 2 * in[i];

  std::array<std::atomic<int>, 100> visits{};
  const auto visit = [](void* arg, size_t index) { ++(*static_cast<decltype(visits)*>(arg))[index]; };
  void (*const task)(void*, size_t) = visit;
  ask<slot::KernelContext_ParallelFor>(static_cast<const OrtKernelContext*>(context), task, visits.size(), size_t{0},
                                       static_cast<void*>(&visits));
  for (const auto& count : visits) require<slot::KernelContext_ParallelFor>(count == 1);
}

// y has the shape of x: ("n", 3). The session shows it, because the model does not state it.
void probe_shape_inference(OrtShapeInferContext* context) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  ask<slot::ShapeInferContext_GetInputTypeShape>(static_cast<const OrtShapeInferContext*>(context), size_t{0}, &info);
  require<slot::ShapeInferContext_GetInputTypeShape>(info != nullptr);
  const OrtTensorTypeAndShapeInfo* shape = info;
  std::array<const char*, 2> names{};
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  ask<slot::SetTensorElementType>(info, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8);
  ask<slot::GetTensorElementType>(shape, &type);
  require<slot::SetTensorElementType>(type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8);
  ask<slot::SetTensorElementType>(info, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  ask<slot::GetTensorElementType>(shape, &type);
  require<slot::GetTensorElementType>(type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  ask<slot::GetSymbolicDimensions>(shape, names.data(), names.size());
  require<slot::GetSymbolicDimensions>(names[0] != nullptr && std::strcmp(names[0], "n") == 0);
  ask<slot::ShapeInferContext_SetOutputTypeShape>(static_cast<const OrtShapeInferContext*>(context), size_t{0}, shape);
}

struct ProbeOp : OrtCustomOp {
  ProbeOp() : OrtCustomOp{} {
    version = kOrtApiVersion;
    GetName = [](const OrtCustomOp*) { return "Probe"; };
    GetExecutionProviderType = [](const OrtCustomOp*) { return "CPUExecutionProvider"; };
    GetInputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
    GetInputTypeCount = [](const OrtCustomOp*) { return size_t{2}; };
    GetOutputType = GetInputType;
    GetOutputTypeCount = [](const OrtCustomOp*) { return size_t{1}; };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
    GetOutputCharacteristic = GetInputCharacteristic;
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
      *kernel = nullptr;
      return boundary([&] {
        probe_attributes(info);
        probe_node(info);
      });
    };
    KernelComputeV2 = [](void*, OrtKernelContext* context) { return boundary([&] { probe_compute(context); }); };
    KernelDestroy = [](void*) {};
    InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) {
      return boundary([&] { probe_shape_inference(context); });
    };
  }
};

// Same(a, b) -> y: 1 where a and b are the same memory, 0 where one is a copy of the other.
struct SameOp : ProbeOp {
  SameOp() {
    GetName = [](const OrtCustomOp*) { return "Same"; };
    InferOutputShapeFn = nullptr;
    CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void** kernel) -> OrtStatus* {
      *kernel = nullptr;
      return nullptr;
    };
    KernelComputeV2 = [](void*, OrtKernelContext* context) {
      return boundary([&] {
        const OrtValue* a = nullptr;
        const OrtValue* b = nullptr;
        OrtValue* y = nullptr;
        ask<slot::KernelContext_GetInput>(static_cast<const OrtKernelContext*>(context), size_t{0}, &a);
        ask<slot::KernelContext_GetInput>(static_cast<const OrtKernelContext*>(context), size_t{1}, &b);
        ask<slot::KernelContext_GetOutput>(context, size_t{0}, static_cast<const int64_t*>(nullptr), size_t{0}, &y);
        *static_cast<float*>(data_of(y)) = data_of(a) == data_of(b) ? 1.0f : 0.0f;
      });
    };
  }
};

// Race(a, b) -> y: adds the values of a to a sum that all runs share and none guards, and gives how often it did. Two
// runs at once are a data race, which ThreadSanitizer has to see for its silence to mean anything (nox -s race).
struct RaceOp : SameOp {
  RaceOp() {
    GetName = [](const OrtCustomOp*) { return "Race"; };
    KernelComputeV2 = [](void*, OrtKernelContext* context) {
      return boundary([&] {
        static double sum = 0;
        static float runs = 0;
        const OrtValue* a = nullptr;
        OrtTensorTypeAndShapeInfo* info = nullptr;
        size_t rank = 0;
        int64_t size = 0;
        const auto silent = [](OrtStatus* status) {
          if (status != nullptr) throw Lie{"Race was refused"};
        };
        silent(call<slot::KernelContext_GetInput>(g_api, static_cast<const OrtKernelContext*>(context), size_t{0}, &a));
        silent(call<slot::GetTensorTypeAndShape>(g_api, a, &info));
        silent(call<slot::GetDimensionsCount>(g_api, static_cast<const OrtTensorTypeAndShapeInfo*>(info), &rank));
        if (rank == 1) {
          silent(call<slot::GetDimensions>(g_api, static_cast<const OrtTensorTypeAndShapeInfo*>(info), &size, rank));
        }
        call<slot::ReleaseTensorTypeAndShapeInfo>(g_api, info);
        void* data = nullptr;
        silent(call<slot::GetTensorMutableData>(g_api, const_cast<OrtValue*>(a), &data));
        for (int64_t i = 0; i < size; ++i) sum += static_cast<const float*>(data)[i];
        runs += sum == sum ? 1.0f : 0.0f;
        OrtValue* y = nullptr;
        silent(call<slot::KernelContext_GetOutput>(g_api, context, size_t{0}, static_cast<const int64_t*>(nullptr),
                                                   size_t{0}, &y));
        silent(call<slot::GetTensorMutableData>(g_api, y, &data));
        *static_cast<float*>(data) = runs;
      });
    };
  }
};

// The host's table, or a copy of it in which one row holds its neighbour's function.
const OrtApi* table_of(const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  const char* shifted = std::getenv("QUARKFAST_PROBE_SHIFT");
  if (api == nullptr || shifted == nullptr) return api;
  static std::array<void*, kTableSize> table;
  std::memcpy(table.data(), static_cast<const void*>(api), sizeof(table));
  const auto shift = [&]<class Slot>() {
    if (std::strcmp(shifted, Slot::name) == 0) table[Slot::index] = table[Slot::index + 1];
  };
#define ORT_SLOT(index_, since_, name_, ...) shift.operator()<slot::name_>();
#include "ort/ort_slots.inc"
#undef ORT_SLOT
  return reinterpret_cast<const OrtApi*>(table.data());
}

}  // namespace

extern "C" QUARKFAST_API OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  static const ProbeOp probe;
  static const SameOp same;
  static const RaceOp race;
  g_api = table_of(base);
  return boundary([&] {
    OrtCustomOpDomain* domain = nullptr;
    ask<slot::CreateCustomOpDomain>("quarkfast.probe", &domain);
    require<slot::CreateCustomOpDomain>(domain != nullptr);
    ask<slot::CustomOpDomain_Add>(domain, static_cast<const OrtCustomOp*>(&probe));
    ask<slot::CustomOpDomain_Add>(domain, static_cast<const OrtCustomOp*>(&same));
    ask<slot::CustomOpDomain_Add>(domain, static_cast<const OrtCustomOp*>(&race));
    ask<slot::AddCustomOpDomain>(options, domain);
    // The way an error takes: this status becomes the exception that probe_session.py expects.
    if (std::getenv("QUARKFAST_PROBE_REFUSE") != nullptr) throw Lie{"the probe refuses on demand"};
  });
}
