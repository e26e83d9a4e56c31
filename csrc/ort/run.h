// One run of an operator: its inputs, and ONNX Runtime's own intra-op threads as a pool for the kernels.
#pragma once

#include "ort/tensor.h"
#include "runtime/parallel.h"

namespace quarkfast::ort {

struct Run {
  const OrtApi* api;
  OrtKernelContext* context;

  // The value of an input; null when an optional input is absent.
  const OrtValue* input(size_t index) const {
    const OrtValue* value = nullptr;
    check(call<slot::KernelContext_GetInput>(api, context, index, &value));
    return value;
  }

  // Valid as long as this Run.
  Pool pool() const;
};

}  // namespace quarkfast::ort
