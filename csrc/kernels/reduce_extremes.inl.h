// Least and greatest value, of runs or of each column of some rows, as keys that are ordered like them
// (docs/numerics.md, "Ranges").
//
// Whatever is not finite is an extreme too, so one pass of integer minimum and maximum finds it. Integers need no
// explicit lanes: compilers vectorize the plain loop, runs of 32 included, which lanes of our own made three times as
// slow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bits.inl.h"
#include "numerics/order.h"

namespace quarkfast::QF_ISA {
namespace {

inline int32_t order_key_of(float x) {
  return order_key(bit_copy<int32_t>(x));
}
template <class T>
inline int16_t order_key_of(T x) {
  return order_key(static_cast<int16_t>(x.bits));
}

// low[r] = min(low[r], least key of run r), and high[r] the greatest.
template <class T>
void reduce_extremes(const T* __restrict x, size_t runs, size_t n, OrderKey<T>* __restrict low,
                     OrderKey<T>* __restrict high) {
  for (size_t r = 0; r < runs; ++r, x += n) {
    OrderKey<T> least = low[r], most = high[r];
    for (size_t i = 0; i < n; ++i) {
      const OrderKey<T> key = order_key_of(x[i]);
      least = smaller(least, key);
      most = larger(most, key);
    }
    low[r] = least;
    high[r] = most;
  }
}

// The same for each of n columns of rows that begin `stride` elements apart. Four rows at once, so that keys are read
// and written a quarter as often: 0.30 ns a float32 in place of 0.44 (2048 columns of 14336, x86-64-v4).
template <class T>
void reduce_extremes_channels(const T* __restrict x, size_t rows, size_t stride, size_t n, OrderKey<T>* __restrict low,
                              OrderKey<T>* __restrict high) {
  for (; rows >= 4; rows -= 4, x += 4 * stride) {
    for (size_t i = 0; i < n; ++i) {
      const OrderKey<T> a = order_key_of(x[i]), b = order_key_of(x[stride + i]);
      const OrderKey<T> c = order_key_of(x[2 * stride + i]), d = order_key_of(x[3 * stride + i]);
      low[i] = smaller(low[i], smaller(smaller(a, b), smaller(c, d)));
      high[i] = larger(high[i], larger(larger(a, b), larger(c, d)));
    }
  }
  for (; rows; --rows, x += stride) {
    for (size_t i = 0; i < n; ++i) {
      const OrderKey<T> key = order_key_of(x[i]);
      low[i] = smaller(low[i], key);
      high[i] = larger(high[i], key);
    }
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
