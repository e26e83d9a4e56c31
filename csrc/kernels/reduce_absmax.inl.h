// Largest finite magnitude, of a run or of each position of a row (docs/numerics.md, "Ranges").
//
// Magnitudes of finite floats are ordered like their bits, so the maximum is one of integers; values that are not
// finite count as zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bits.inl.h"
#include "kernels/chunk.inl.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kAbsmaxLanes = 32;  // fewer than for ranges: a channel of a convolution may hold 49 values

inline uint32_t finite_magnitude(float x) {
  const uint32_t magnitude = bit_copy<uint32_t>(x) & kMagnitudeMask;
  return magnitude & -static_cast<uint32_t>(magnitude < kInfinityBits);  // a select would become a branch
}

inline uint32_t chunk_absmax(const float* __restrict x, size_t n) {
  uint32_t top[kAbsmaxLanes] = {};
  size_t i = 0;
  for (; i + kAbsmaxLanes <= n; i += kAbsmaxLanes) {
    for (size_t j = 0; j < kAbsmaxLanes; ++j) top[j] = larger(top[j], finite_magnitude(x[i + j]));
  }
  for (; i < n; ++i) top[0] = larger(top[0], finite_magnitude(x[i]));
  for (size_t width = kAbsmaxLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) top[j] = larger(top[j], top[j + width]);
  }
  return top[0];
}

// *top = max(*top, largest finite magnitude of x).
template <class T>
void reduce_absmax(const T* x, size_t n, float* top) {
  uint32_t largest = bit_copy<uint32_t>(*top);
  for_chunks(x, n, [&](const float* values, size_t size) { largest = larger(largest, chunk_absmax(values, size)); });
  *top = bit_copy<float>(largest);
}

// The same for each position: top[i] = max(top[i], |x[i]|).
template <class T>
void reduce_absmax_channels(const T* x, size_t n, float* top) {
  for_chunks(x, n, [&](const float* __restrict values, size_t size) {
    float* __restrict target = top;
    for (size_t i = 0; i < size; ++i) {
      target[i] = bit_copy<float>(larger(bit_copy<uint32_t>(target[i]), finite_magnitude(values[i])));
    }
    top += size;
  });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
