// Largest finite magnitude of each channel of a tensor.
#pragma once

#include <cstddef>

#include "export.h"
#include "numerics/types.h"
#include "runtime/parallel.h"

namespace quarkfast {

// top[c] = max(top[c], |x[o, c, i]|) over the finite values of x, of shape (outer, channels, inner). T is float, f16 or
// bf16.
template <class T>
QUARKFAST_API void reduce_absmax(const T* x, size_t outer, size_t channels, size_t inner, float* top, const Pool& pool);

}  // namespace quarkfast
