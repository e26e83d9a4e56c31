// Random numbers of stochastic rounding: a function of seed and place, so that no thread or vector width changes them
// (docs/numerics.md, "Stochastic rounding").
#pragma once

#include <cstdint>

namespace quarkfast {

// Steele, Lea and Flood's finalizer of SplitMix64: seeds that differ in one bit give unrelated keys. Static, hence one
// copy in every object: a shared one, compiled for a high instruction set, could be linked into all of them.
static constexpr uint64_t stochastic_key(uint64_t seed) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace quarkfast
