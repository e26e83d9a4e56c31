// Floats in an order of integers: IEEE 754's total order, in which the least and the greatest value of a set, NaN among
// them, depend on nothing but the set.
#pragma once

#include <cstdint>
#include <limits>

#include "numerics/types.h"

namespace quarkfast {

// The bits of a float type as a signed integer, and those of +infinity.
template <class T>
struct OrderOf;
template <>
struct OrderOf<float> {
  using Key = int32_t;
  static constexpr Key kInfinity = 0x7f800000;
};
template <>
struct OrderOf<f16> {
  using Key = int16_t;
  static constexpr Key kInfinity = 0x7c00;
};
template <>
struct OrderOf<bf16> {
  using Key = int16_t;
  static constexpr Key kInfinity = 0x7f80;
};
template <class T>
using OrderKey = typename OrderOf<T>::Key;

// Keys are ordered as their floats: -NaN, -infinity ... -0, +0 ... +infinity, NaN. The function is its own inverse.
// Static for the reason given at element_of.
template <class Key>
static constexpr Key order_key(Key bits) {
  return static_cast<Key>(bits ^ ((bits >> std::numeric_limits<Key>::digits) & std::numeric_limits<Key>::max()));
}

}  // namespace quarkfast
