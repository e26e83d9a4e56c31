#include "stats/exact_sum.h"

#include <bit>

namespace quarkfast {

namespace {

constexpr uint32_t kSpecialExponent = 255;  // NaN and infinities

// The significand of exponent e (as stored) counts units of 2^(-149 + scale); subnormals share the scale of exponent 1.
constexpr size_t scale_of(uint32_t exponent) {
  return exponent ? exponent - 1 : 0;
}

template <size_t limbs>
void add_signed(LongInteger<limbs>& sum, int64_t value, size_t shift) {
  const auto bits = static_cast<uint64_t>(value);
  sum.add(value < 0 ? 0 - bits : bits, shift, value < 0);
}

void add(Moments& moments, const MomentsWindow& w) {
  const auto unit = static_cast<size_t>(w.exponent - kLeastWindow);  // in powers of two above 2^-149
  add_signed(moments.sum, w.sum, unit);
  add_signed(moments.squares, w.low, 2 * unit);
  add_signed(moments.squares, w.cross, 2 * unit + kLowBits + 1);  // twice each product
  add_signed(moments.squares, w.high, 2 * unit + 2 * kLowBits);
}

}  // namespace

void add(FloatSum& sum, float finite) {
  const auto bits = std::bit_cast<uint32_t>(finite);
  const uint32_t exponent = (bits >> 23) & 255;
  sum.add((bits & 0x007fffffu) | (exponent ? 0x00800000u : 0u), scale_of(exponent), bits >> 31);
}

void add(Moments& moments, const ExponentSums& sums) {
  for (size_t i = 0; i < sums.windows_used; ++i) add(moments, sums.windows[i]);
  for (uint32_t i = 0; sums.lanes_used && i < kExponents; ++i) {
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
