// The entry point for ONNX Runtime: RegisterCustomOps adds quarkfast's operators to a session.
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "export.h"
#include "ort/ops/ops.h"
#include "runtime/keep_loaded.h"

namespace quarkfast::ort {

namespace {

// What one copy of ONNX Runtime in the process was given. Sessions share it; it lives as long as the process, because
// sessions may outlive any moment at which it could be taken back.
class Host {
 public:
  explicit Host(const OrtApi* api) : api_(api) {
    add_quantize_linear(definitions_, api);
    add_dequantize_linear(definitions_, api);
    add_quantize_dequantize_block(definitions_, api);
    add_quantize_dequantize_linear(definitions_, api);
    add_dequantize_block(definitions_, api);
    add_instance_normalization(definitions_, api);
    add_lstm(definitions_, api);
    add_observe(definitions_, api);
    add_compare(definitions_, api);
    for (const Definition& definition : definitions_) {
      check(call<slot::CustomOpDomain_Add>(api, domain(definition.domain), &definition));
    }
  }

  const OrtApi* api() const { return api_; }

  void add_to(OrtSessionOptions* options) const {
    for (const Domain& domain : domains_) check(call<slot::AddCustomOpDomain>(api_, options, domain.handle));
  }

 private:
  struct Domain {
    std::string name;
    OrtCustomOpDomain* handle;
  };

  OrtCustomOpDomain* domain(const char* name) {
    for (const Domain& domain : domains_) {
      if (domain.name == name) return domain.handle;
    }
    OrtCustomOpDomain* handle = nullptr;
    check(call<slot::CreateCustomOpDomain>(api_, name, &handle));
    domains_.push_back({name, handle});
    return handle;
  }

  const OrtApi* api_;
  Definitions definitions_;
  std::vector<Domain> domains_;
};

// A process can hold several copies of ONNX Runtime, each with a table of its own.
const Host& host_of(const OrtApi* api) {
  static std::mutex mutex;
  static std::deque<Host> hosts;
  const std::lock_guard lock(mutex);
  for (const Host& host : hosts) {
    if (host.api() == api) return host;
  }
  keep_loaded();
  return hosts.emplace_back(api);
}

// A host without the table of kOrtApiVersion still has the one of version 1, which can make a status.
OrtStatus* too_old(const OrtApiBase* base) {
  const std::string text =
      std::string("quarkfast needs onnxruntime >= ") + kOldestOnnxRuntime + ", found " + base->GetVersionString();
  return call<slot::CreateStatus>(base->GetApi(1), ORT_NOT_IMPLEMENTED, text.c_str());
}

}  // namespace

}  // namespace quarkfast::ort

extern "C" QUARKFAST_API OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace quarkfast::ort;
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  return detail::boundary(base->GetApi(1), [&] {
    if (api == nullptr) return too_old(base);
    return detail::guard(api, "quarkfast", [&] { host_of(api).add_to(options); });
  });
}
