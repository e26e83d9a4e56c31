// The instruction sets that were compiled into this library.
#pragma once

#include <span>

#include "kernels.h"

namespace quarkfast {

struct InstructionSet {
  const Kernels* kernels;
  bool (*supported)();
};

std::span<const InstructionSet> instruction_sets();

}  // namespace quarkfast
