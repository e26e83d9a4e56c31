// The rungs of the ISA ladder that were compiled into this library.
#pragma once

#include <span>

#include "kernels.h"

namespace quarkfast {

struct Rung {
  const Kernels* kernels;
  bool (*supported)();
};

std::span<const Rung> rungs();

}  // namespace quarkfast
