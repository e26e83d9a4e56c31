// Memory of the process.
#pragma once

#include <cstddef>

#include "export.h"

namespace quarkfast {

// Gives free pages back to the system, where the C library keeps them: glibc does, whatever lies above them.
QUARKFAST_API void release_memory();

// Bytes of the process that lie in physical memory now; 0 where the system does not tell.
QUARKFAST_API size_t resident_bytes();

}  // namespace quarkfast
