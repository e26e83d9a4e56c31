// The library stays in the process.
#pragma once

namespace quarkfast {

// Keeps the library loaded until the process ends: its threads, and sessions that outlive their options, still run code
// of it when its last user has closed it. On Linux the linker's -z nodelete has done so already.
void keep_loaded();

}  // namespace quarkfast
