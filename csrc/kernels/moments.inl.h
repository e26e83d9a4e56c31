// Sums and sums of squares without rounding (docs/numerics.md, "Moments").
//
// Values of one exponent are whole multiples of one unit, so their significands add up exactly in integers. NaN and
// infinities gather under exponent 255, which nobody reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bits.inl.h"
#include "chunk.inl.h"
#include "numerics/moments.h"

namespace quarkfast::QF_ISA {
namespace {

inline void add_moment(float x, ExponentSums::Entry* lane) {
  const uint32_t bits = bit_copy<uint32_t>(x);
  const uint32_t implicit = (bits & kInfinityBits) ? 0x00800000u : 0u;
  const uint64_t significand = (bits & 0x007fffffu) | implicit;
  ExponentSums::Entry& entry = lane[bits >> 23];
  entry.sum += significand;
  entry.square += significand * significand;
}

// Adds at most kMomentsBlock values to sums that are zero.
template <class T>
void sum_moments(const T* x, size_t n, ExponentSums* sums) {
  for_chunks(x, n, [sums](const float* values, size_t size) {
    size_t i = 0;
    for (; i + kMomentsLanes <= size; i += kMomentsLanes) {
      for (size_t j = 0; j < kMomentsLanes; ++j) add_moment(values[i + j], sums->lanes[j]);
    }
    for (; i < size; ++i) add_moment(values[i], sums->lanes[0]);
  });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
