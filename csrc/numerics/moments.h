// Exact sums: what the moments kernel counts by exponent (docs/numerics.md, "Moments").
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

// Sums over the values that share the upper nine bits of a float32 (sign and exponent): of the significand, a whole
// number below 2^24, and of its square. kMomentsBlock values cannot overflow 64 bits, even of squares. Several sets,
// taken in turn, keep equal neighbours from waiting for each other's store.
constexpr size_t kMomentsBlock = 31 * 2048;
constexpr size_t kMomentsLanes = 4;
constexpr size_t kExponents = 512;
struct ExponentSums {
  struct Entry {
    uint64_t sum;
    uint64_t square;
  };
  Entry lanes[kMomentsLanes][kExponents];
};

}  // namespace quarkfast
