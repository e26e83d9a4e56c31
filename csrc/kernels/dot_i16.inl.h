// Dot products of 16-bit integers, exact in 64 bits: the inner loop of the quantized LSTM.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast::QF_ISA {
namespace {

void dot_i16_i64(const int16_t* x, const int16_t* rows, size_t count, size_t n, int64_t* y) {
  for (size_t row = 0; row < count; ++row) {
    const int16_t* w = rows + row * n;
    int64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<int32_t>(x[i]) * static_cast<int32_t>(w[i]);
    y[row] = sum;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
