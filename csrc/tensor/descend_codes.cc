#include "tensor/descend_codes.h"

#include "runtime/dispatch.h"

namespace quarkfast {

void descend_codes(const DescentProblem& p, const Pool& pool) {
  const Kernels& kernels = active();
  parallel_for(pool, p.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const size_t at = row * p.n;
      kernels.descend_codes_f64(p.codes + at, p.residual + at, p.gram, p.n, p.scale[row], p.low + at, p.high + at,
                                p.passes);
    }
  });
}

}  // namespace quarkfast
