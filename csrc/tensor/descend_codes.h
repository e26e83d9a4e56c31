// Codes of a matrix of weights by coordinate descent, spread over a pool.
#pragma once

#include <cstddef>

#include "export.h"
#include "runtime/parallel.h"

namespace quarkfast {

// A matrix of codes (rows, n), row-major, and what its rows share.
struct DescentProblem {
  double* codes;        // whole numbers; changed
  double* residual;     // (rows, n): half the negative gradient; changed
  const double* gram;   // (n, n), symmetric
  const double* scale;  // one for each row, > 0
  const double* low;    // (rows, n): the lowest code that each may become
  const double* high;   // and the highest
  size_t rows, n;
  size_t passes;
};

// Gives each code of each row in turn the value of least error while the others of its row stand.
QUARKFAST_API void descend_codes(const DescentProblem& problem, const Pool& pool);

}  // namespace quarkfast
