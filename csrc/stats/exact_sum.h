// Sums of floats and of their squares without any rounding, as one long integer (docs/numerics.md, "Moments").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "export.h"
#include "numerics/moments.h"

namespace quarkfast {

// A two's complement integer of 64 * limbs bits, lowest limb first. Integers add in any order, so sums do too.
template <size_t limbs>
struct LongInteger {
  std::array<uint64_t, limbs> limb{};

  bool operator==(const LongInteger&) const = default;

  // Adds value * 2^shift, or subtracts it; shift < 64 * (limbs - 1).
  void add(uint64_t value, size_t shift, bool negative) {
    const size_t first = shift / 64, offset = shift % 64;
    const uint64_t part[2] = {value << offset, offset ? value >> (64 - offset) : 0};
    uint64_t carry = 0;
    for (size_t i = first; i < limbs && (i < first + 2 || carry); ++i) {
      const uint64_t term = i < first + 2 ? part[i - first] : 0, before = limb[i];
      limb[i] = negative ? before - term - carry : before + term + carry;
      carry = negative ? before < term || (before == term && carry) : limb[i] < before || (limb[i] == before && carry);
    }
  }

  void add(const LongInteger& other) {
    uint64_t carry = 0;
    for (size_t i = 0; i < limbs; ++i) {
      const uint64_t before = limb[i];
      limb[i] = before + other.limb[i] + carry;
      carry = limb[i] < before || (limb[i] == before && carry);
    }
  }
};

// A sum of float32 in units of 2^-149, the smallest subnormal: 277 bits and sign for one value, the rest for 2^106 of
// them.
using FloatSum = LongInteger<6>;
// A sum of squares of float32 in units of 2^-298.
using SquareSum = LongInteger<10>;

// Sum and sum of squares of the finite values.
struct Moments {
  FloatSum sum;
  SquareSum squares;
};

QUARKFAST_API void add(FloatSum& sum, float finite);
QUARKFAST_API void add(Moments& moments, const ExponentSums& sums);
QUARKFAST_API void merge(Moments& into, const Moments& from);

}  // namespace quarkfast
