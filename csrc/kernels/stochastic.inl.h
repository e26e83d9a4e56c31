// Stochastic rounding: up with the probability of what rounding down takes away (docs/numerics.md, "Stochastic
// rounding").
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "kernels/blocks.inl.h"
#include "numerics/rounding.h"

namespace quarkfast::QF_ISA {
namespace {

// A permutation of 32 bits in which every bit of the result depends on every bit of h (constants of C. Wellons).
inline uint32_t scrambled(uint32_t h) {
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  return h ^ (h >> 16);
}

// Calls body(begin, end, low, high) for pieces of [0, n) at places first + begin, within each of which the upper half
// of the place stays the same: element j of a piece has the random bits scrambled(scrambled(j ^ low) + high), j counted
// in the lower half of the place.
template <class Body>
inline void for_places(size_t n, uint64_t key, uint64_t first, Body&& body) {
  constexpr uint64_t kSpan = uint64_t{1} << 32;
  for (size_t done = 0; done < n;) {
    const uint64_t place = first + done, left = kSpan - place % kSpan;
    const size_t count = left < n - done ? static_cast<size_t>(left) : n - done;
    const auto high = static_cast<uint32_t>(key >> 32) + static_cast<uint32_t>(place >> 32) * 0x9e3779b9u;
    body(done, count, static_cast<uint32_t>(place), static_cast<uint32_t>(key), high);
    done += count;
  }
}

inline uint32_t random_bits(uint32_t place, uint32_t low, uint32_t high) {
  return scrambled(scrambled(place ^ low) + high);
}

// The quotient is limited to what no type of 16 bits reaches; NaN becomes the lower limit. Fractions are exact there.
inline float stochastic(float quotient, uint32_t bits) {
  constexpr float kLimit = 0x1p20f;
  float v = quotient > -kLimit ? quotient : -kLimit;
  v = v < kLimit ? v : kLimit;
  const float nearest = (v + kRoundF32) - kRoundF32, below = nearest > v ? nearest - 1.0f : nearest;
  const float threshold = static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;  // of [0, 1)
  return v - below > threshold ? below + 1.0f : below;
}

void round_stochastic_f32(const float* __restrict x, float* __restrict y, size_t n, const float* __restrict scale,
                          bool each, uint64_t key, uint64_t first) {
  for_places(n, key, first, [&](size_t begin, size_t count, uint32_t place, uint32_t low, uint32_t high) {
    const float *from = x + begin, *scales = scale + begin;
    float* to = y + begin;
    if (each) {
      for (size_t j = 0; j < count; ++j) {
        to[j] = stochastic(from[j] / scales[j], random_bits(place + static_cast<uint32_t>(j), low, high));
      }
      return;
    }
    const float one = *scale;
    for (size_t j = 0; j < count; ++j) {
      to[j] = stochastic(from[j] / one, random_bits(place + static_cast<uint32_t>(j), low, high));
    }
  });
}

// The 16 bits below those that stay, plus 16 random ones, carry with the probability of what they are worth.
void cast_stochastic_f32_bf16(const float* __restrict x, bf16* __restrict y, size_t n, uint64_t key, uint64_t first) {
  for_places(n, key, first, [&](size_t begin, size_t count, uint32_t place, uint32_t low, uint32_t high) {
    const float* from = x + begin;
    bf16* to = y + begin;
    for (size_t j = 0; j < count; ++j) {
      const uint32_t bits = bit_copy<uint32_t>(from[j]), magnitude = bits & ~kSignBit;
      const uint32_t random = random_bits(place + static_cast<uint32_t>(j), low, high) >> 16;
      const uint32_t odd = magnitude > kExponentField ? (bits & kSignBit) | kQuietNan : bits;
      to[j].bits = static_cast<uint16_t>((magnitude < kExponentField ? bits + random : odd) >> 16);
    }
  });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
