#include "runtime/dispatch.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "runtime/rungs.h"

namespace quarkfast {

namespace {

std::atomic<const Kernels*> current{nullptr};

const Kernels& find(const std::string& name, const char* where) {
  for (const Rung& rung : rungs()) {
    if (name == rung.kernels->isa && rung.supported()) return *rung.kernels;
  }
  std::string list;
  for (const std::string& each : available()) list += (list.empty() ? "" : ", ") + each;
  throw std::invalid_argument(std::string(where) + ": expected one of " + list + ", got '" + name + "'");
}

const Kernels& choose() {
  if (const char* name = std::getenv("QUARKFAST_ISA"); name && *name) return find(name, "QUARKFAST_ISA");
  for (const Rung& rung : rungs()) {
    if (rung.supported()) return *rung.kernels;
  }
  throw std::runtime_error(std::string("quarkfast: expected a processor with at least ") + rungs().back().kernels->isa +
                           ", got an older one");
}

}  // namespace

const Kernels& active() {
  const Kernels* kernels = current.load(std::memory_order_acquire);
  if (!kernels) {
    // Two threads may both choose; they choose the same, unless use() came first, whose word then stays.
    const Kernels* expected = nullptr;
    kernels = &choose();
    if (!current.compare_exchange_strong(expected, kernels, std::memory_order_acq_rel)) kernels = expected;
  }
  return *kernels;
}

std::vector<std::string> available() {
  std::vector<std::string> names;
  for (const Rung& rung : rungs()) {
    if (rung.supported()) names.emplace_back(rung.kernels->isa);
  }
  return names;
}

void use(const std::string& name) {
  current.store(&find(name, "use_isa"), std::memory_order_release);
}

}  // namespace quarkfast
