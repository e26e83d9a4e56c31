// Runs a kernel of the form f(x, y, n) over a whole array, spread over a pool. Both doors call this.
#pragma once

#include <cstddef>

#include "parallel.h"

namespace quarkfast {

// Elements below which a second thread costs more than it saves: about 10 microseconds of work at memory speed.
inline constexpr size_t kElementwiseGrain = 32768;

template <class In, class Out>
void elementwise(void (*kernel)(const In*, Out*, size_t), const In* x, Out* y, size_t n, const Pool& pool) {
  parallel_for(pool, n, kElementwiseGrain,
               [&](size_t begin, size_t end) { kernel(x + begin, y + begin, end - begin); });
}

}  // namespace quarkfast
