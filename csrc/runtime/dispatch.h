// Which instruction set runs: the best one, or the one that QUARKFAST_ISA or use() names.
#pragma once

#include <string>
#include <vector>

#include "export.h"
#include "kernels.h"

namespace quarkfast {

// The table in use. The first call reads QUARKFAST_ISA and throws std::invalid_argument when it names no available
// each.
QUARKFAST_API const Kernels& active();

// Names of the instruction sets that were built and that this processor runs, best first.
QUARKFAST_API std::vector<std::string> available();

// Makes the named instruction set the active one for the whole process; throws std::invalid_argument listing the
// available ones.
QUARKFAST_API void use(const std::string& name);

}  // namespace quarkfast
