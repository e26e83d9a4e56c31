// Dot products of 16-bit integers, exact in 64 bits: the inner loop of the quantized LSTM. The rows of the matrix lie
// across memory, so that neighbouring dot products are neighbouring lanes and nothing is added up across a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kDotLanes = 32;  // sums that stay in registers: four of the widest vectors, eight of the next

inline void dot_columns_i16_i64(const int16_t* __restrict x, const int16_t* __restrict columns, size_t stride, size_t n,
                                size_t count, int64_t* __restrict y) {
  for (size_t lane = 0; lane < count; ++lane) y[lane] = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t value = x[i];
    const int16_t* w = columns + i * stride;
    for (size_t lane = 0; lane < count; ++lane) y[lane] += value * static_cast<int32_t>(w[lane]);
  }
}

void dot_i16_i64(const int16_t* x, const int16_t* columns, size_t count, size_t n, int64_t* y) {
  size_t first = 0;
  for (; first + kDotLanes <= count; first += kDotLanes) {
    int64_t sums[kDotLanes];
    dot_columns_i16_i64(x, columns + first, count, n, kDotLanes, sums);
    for (size_t lane = 0; lane < kDotLanes; ++lane) y[first + lane] = sums[lane];
  }
  dot_columns_i16_i64(x, columns + first, count, n, count - first, y + first);
}

}  // namespace
}  // namespace quarkfast::QF_ISA
