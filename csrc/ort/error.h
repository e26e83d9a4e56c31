// How operators fail: they throw, and the trampolines of op.h turn what was thrown into a status. Nothing thrown ever
// reaches ONNX Runtime.
#pragma once

#include <string>
#include <utility>

#include "ort/ort_abi.h"

namespace quarkfast::ort {

// A mistake in the model or its data, reported as `<what>: expected ..., got ...[; remedy]`. The trampoline puts the
// operator and the node in front of it.
struct Error {
  std::string text;
  OrtErrorCode code = ORT_INVALID_ARGUMENT;
};

// A call into ONNX Runtime that failed; its own status is handed back unchanged.
struct HostError {
  OrtStatus* status;
};

inline void check(OrtStatus* status) {
  if (status != nullptr) throw HostError{status};
}

// Whether a call succeeded, for calls whose failure is an answer and not an error.
inline bool succeeded(const OrtApi* api, OrtStatus* status) {
  if (status != nullptr) call<slot::ReleaseStatus>(api, status);
  return status == nullptr;
}

}  // namespace quarkfast::ort
