#include "exact_sum.h"

#include <bit>

namespace quarkfast {

namespace {

constexpr uint32_t kSpecialExponent = 255;  // NaN and infinities

// The significand of exponent e (as stored) counts units of 2^(-149 + scale); subnormals share the scale of exponent 1.
constexpr size_t scale_of(uint32_t exponent) {
  return exponent ? exponent - 1 : 0;
}

}  // namespace

void add(FloatSum& sum, float finite) {
  const auto bits = std::bit_cast<uint32_t>(finite);
  const uint32_t exponent = (bits >> 23) & 255;
  sum.add((bits & 0x007fffffu) | (exponent ? 0x00800000u : 0u), scale_of(exponent), bits >> 31);
}

void add(Moments& moments, const ExponentSums& sums) {
  for (uint32_t i = 0; i < kExponents; ++i) {
    const uint32_t exponent = i & 255;
    if (exponent == kSpecialExponent) continue;
    for (const auto& lane : sums.lanes) {
      if (!lane[i].sum) continue;
      moments.sum.add(lane[i].sum, scale_of(exponent), i > 255);
      moments.squares.add(lane[i].square, 2 * scale_of(exponent), false);
    }
  }
}

void merge(Moments& into, const Moments& from) {
  into.sum.add(from.sum);
  into.squares.add(from.squares);
}

}  // namespace quarkfast
