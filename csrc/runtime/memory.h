// Memory that the process has freed and the allocator has kept.
#pragma once

#include "export.h"

namespace quarkfast {

// Gives free pages back to the system, where the C library keeps them: glibc does, whatever lies above them.
QUARKFAST_API void release_memory();

}  // namespace quarkfast
