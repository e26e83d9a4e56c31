// Instance normalization in bfloat16 steps over a whole tensor, spread over a pool. The operators call this.
#pragma once

#include <cstddef>

#include "runtime/parallel.h"

namespace quarkfast {

// x and y have shape (batch, channels, n); gamma and beta hold a value per channel. y may be x.
void normalize_instances(const float* x, float* y, size_t batch, size_t channels, size_t n, const float* gamma,
                         const float* beta, float epsilon, const Pool& pool);

}  // namespace quarkfast
