#include "runtime/dispatch.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "runtime/instruction_sets.h"

namespace quarkfast {

namespace {

std::atomic<const Kernels*> current{nullptr};

const Kernels& find(const std::string& name, const char* where) {
  for (const InstructionSet& each : instruction_sets()) {
    if (name == each.kernels->isa && each.supported()) return *each.kernels;
  }
  std::string list;
  for (const std::string& each : available()) list += (list.empty() ? "" : ", ") + each;
  throw std::invalid_argument(std::string(where) + ": expected one of " + list + ", got '" + name + "'");
}

const Kernels& choose() {
  if (const char* name = std::getenv("QUARKFAST_ISA"); name && *name) return find(name, "QUARKFAST_ISA");
  for (const InstructionSet& each : instruction_sets()) {
    if (each.supported()) return *each.kernels;
  }
  throw std::runtime_error(std::string("quarkfast: expected a processor with at least ") +
                           instruction_sets().back().kernels->isa + ", got an older one");
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
  for (const InstructionSet& each : instruction_sets()) {
    if (each.supported()) names.emplace_back(each.kernels->isa);
  }
  return names;
}

void use(const std::string& name) {
  current.store(&find(name, "use_isa"), std::memory_order_release);
}

}  // namespace quarkfast
