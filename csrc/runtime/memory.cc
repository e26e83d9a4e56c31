#include "runtime/memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quarkfast {

void release_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace quarkfast
