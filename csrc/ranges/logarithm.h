// Binary logarithm from additions, multiplications and divisions alone: the C library's differs between systems in the
// last bit, and a loop over this one vectorizes.
#pragma once

#include <bit>
#include <cstdint>

namespace quarkfast {

// log2 of a normal number > 0, to about one unit in the last place: x = 2^e * m with m in [sqrt(1/2), sqrt(2)), and
// ln m = 2 * (s + s^3 / 3 + s^5 / 5 + ...) with s = (m - 1) / (m + 1), |s| < 0.172; the first term left out is below
// 2^-58 of the sum.
inline double binary_logarithm(double x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto shifted = static_cast<int64_t>(bits - kSqrtHalf);
  const int64_t exponent = shifted >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<uint64_t>(exponent) << 52));
  const double s = (m - 1) / (m + 1), q = s * s;
  double sum = 1.0 / 21;
  for (int k = 19; k > 0; k -= 2) sum = sum * q + 1.0 / k;
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  return static_cast<double>(exponent) + kTwoOverLn2 * s * sum;
}

}  // namespace quarkfast
