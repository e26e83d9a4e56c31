// The squared error that integer codes leave, read from a histogram (docs/numerics.md, "Range estimation").
//
// With positions in units of the scale, the antiderivative of the squared error is
//     G(u) = n / 12 + (u - n)^3 / 3,    n = rne(clamp(u, low, high)),
// continuous, and the same formula inside the codes and beyond them; the error of a bin is its weight times the
// difference of G between its edges. Sums run in fixed lanes, so every instruction set gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/histogram.h"
#include "numerics/rounding.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kErrorLanes = 8;

// The integral up to u, its two parts apart: in their sum a bin that is narrow beside n would lose its digits.
struct ErrorIntegral {
  double n, cube;
};

inline ErrorIntegral error_integral(double u, double low, double high) {
  double n = u > low ? u : low;
  n = n < high ? n : high;
  n = (n + kRoundF64) - kRoundF64;
  const double r = u - n;
  return {n, r * r * r};
}

// The sum over bins [first, last), both multiples of kErrorLanes, of weights[i] * (G(edge i + 1) - G(edge i)); bins are
// `width` scales wide, and codes reach from low to high.
double quantization_error(const double* weights, size_t first, size_t last, double width, double low, double high) {
  double sum[kErrorLanes] = {};
  for (size_t i = first; i < last; i += kErrorLanes) {
    const int32_t bin = static_cast<int32_t>(i) - kHistogramSide;
    for (size_t j = 0; j < kErrorLanes; ++j) {
      const int32_t at = bin + static_cast<int32_t>(j);
      const ErrorIntegral left = error_integral(static_cast<double>(at) * width, low, high);
      const ErrorIntegral right = error_integral(static_cast<double>(at + 1) * width, low, high);
      sum[j] += weights[i + j] * ((right.n - left.n) / 12.0 + (right.cube - left.cube) / 3.0);
    }
  }
  for (size_t half = kErrorLanes / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sum[j] += sum[j + half];
  }
  return sum[0];
}

}  // namespace
}  // namespace quarkfast::QF_ISA
