// Cyclic coordinate descent over the codes of one row of weights: what rounds weights by the output of a layer.
//
// Every step is one multiplication, division or subtraction of doubles that stands for itself, so that all instruction
// sets give the same codes. Expected of the vectorizer: packed multiplication and subtraction in `subtract_row`, where
// the time goes; few codes move, so most turns are one comparison.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "numerics/rounding.h"

namespace quarkfast::QF_ISA {
namespace {

// Further than any code is from any other.
constexpr double kFar = 8589934592.0;  // 2^33

inline void subtract_row(double* __restrict residual, const double* __restrict row, double factor, size_t n) {
  for (size_t i = 0; i < n; ++i) residual[i] -= factor * row[i];
}

inline double limited(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

void descend_codes_f64(double* codes, double* residual, const double* gram, size_t n, double scale, const double* low,
                       const double* high, size_t passes) {
  for (size_t pass = 0; pass < passes; ++pass) {
    bool moved = false;
    for (size_t k = 0; k < n; ++k) {
      const double* row = gram + k * n;
      const double unit = row[k] * scale;
      if (!(unit > 0)) continue;
      const double free = residual[k] / unit;
      if (!(free == free)) continue;  // NaN
      // A half rounds to an even step, not to an even code, so that nothing moves for no gain. Limited before it is
      // rounded: kRoundF64 rounds up to 2^51.
      const double whole = (limited(free, -kFar, kFar) + kRoundF64) - kRoundF64;
      const double step = limited(codes[k] + whole, low[k], high[k]) - codes[k];
      if (step == 0) continue;
      codes[k] += step;
      subtract_row(residual, row, step * scale, n);
      moved = true;
    }
    if (!moved) return;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
