// Exact sums: what the moments kernel leaves for the long integers to add up (docs/numerics.md, "Moments").
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

// Values of one call of the kernel: the sums below cannot overflow.
constexpr size_t kMomentsChunk = 2048;
constexpr size_t kMomentsBlock = 31 * kMomentsChunk;

// A window holds the values of a chunk that are whole multiples of a unit, 2^(exponent - kWindowBits) for the biased
// exponent of the largest of them: a value is high * 2^kLowBits + low units, with |high| <= 2^22 and |low| <= 2^21.
constexpr int32_t kWindowBits = 170;
constexpr int32_t kLowBits = 22;
constexpr int32_t kLeastWindow = kWindowBits - 149;  // of exponents below, the unit would be finer than any float32
struct MomentsWindow {
  int32_t exponent;
  int64_t sum;    // of the values, in units
  int64_t high;   // of high * high
  int64_t cross;  // of high * low
  int64_t low;    // of low * low
};

// What does not fit a window is counted by the upper nine bits of a float32 (sign and exponent): sums of the
// significand, a whole number below 2^24, and of its square. Several sets, taken in turn, keep equal neighbours from
// waiting for each other's store.
constexpr size_t kMomentsLanes = 4;
constexpr size_t kExponents = 512;
struct ExponentSums {
  struct Entry {
    uint64_t sum;
    uint64_t square;
  };
  size_t windows_used = 0;
  bool lanes_used = false;                                   // where not, lanes are uninitialized
  MomentsWindow windows[kMomentsBlock / kMomentsChunk + 1];  // the first chunk and the last may be short
  Entry lanes[kMomentsLanes][kExponents];
};

}  // namespace quarkfast
