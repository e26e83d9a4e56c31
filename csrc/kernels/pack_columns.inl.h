// Packing of 4-bit codes down the columns of a matrix, each column's bytes in a row of their own (docs/numerics.md,
// "Packed codes").
//
// A tile of 64 columns: eight pairs of rows make eight rows of bytes, and the 8x8 bytes of each eight columns are
// transposed as 64-bit words, in three steps that swap blocks of 1, 2 and 4 bytes. Expected of the vectorizer: one
// vector for a row of a tile. What is ready is gathered to whole cache lines before it is written: columns are often
// a multiple of 4096 bytes apart, and the first cache would hold eight of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bits.inl.h"
#include "kernels/pack_codes.inl.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kTileColumns = 64, kTileRows = 128;
constexpr size_t kWords = kTileColumns / 8;  // of 8 columns each

// Sixteen rows of codes as eight of bytes; columns behind `width` are zero.
inline void read_pairs(const uint8_t* x, size_t stride, size_t width, uint64_t (&w)[8][kWords]) {
  constexpr uint64_t kLow = field_mask(8, 4);
  for (size_t i = 0; i < 8; ++i, x += 2 * stride) {
    uint64_t even[kWords] = {}, odd[kWords] = {};
    if (width == kTileColumns) {  // a size that the compiler knows
      std::memcpy(even, x, kTileColumns);
      std::memcpy(odd, x + stride, kTileColumns);
    } else {
      std::memcpy(even, x, width);
      std::memcpy(odd, x + stride, width);
    }
    for (size_t g = 0; g < kWords; ++g) w[i][g] = (even[g] & kLow) | (odd[g] & kLow) << 4;
  }
}

// Byte j of w[i][g] becomes byte i of w[j][g].
template <int half>
inline void swap_blocks(uint64_t (&w)[8][kWords]) {
  constexpr uint64_t kMask = field_mask(16 * half, 8 * half);
  for (size_t i = 0; i < 8; ++i) {
    if (i & half) continue;
    for (size_t g = 0; g < kWords; ++g) {
      const uint64_t swapped = ((w[i][g] >> (8 * half)) ^ w[i + half][g]) & kMask;
      w[i][g] ^= swapped << (8 * half);
      w[i + half][g] ^= swapped;
    }
  }
}

// y[c * pitch + i] = x[2 * i * stride + c] | x[(2 * i + 1) * stride + c] << 4; rows are a multiple of 16.
void pack_columns_p4(const uint8_t* __restrict x, size_t rows, size_t columns, size_t stride, uint8_t* __restrict y,
                     size_t pitch) {
  for (size_t c = 0; c < columns; c += kTileColumns) {
    const size_t width = smaller(columns - c, kTileColumns);
    for (size_t r = 0; r < rows; r += kTileRows) {
      const size_t height = smaller(rows - r, kTileRows);
      uint64_t tile[kTileColumns][kTileRows / 16];
      for (size_t block = 0; block < height / 16; ++block) {
        uint64_t w[8][kWords];
        read_pairs(x + (r + 16 * block) * stride + c, stride, width, w);
        swap_blocks<1>(w);
        swap_blocks<2>(w);
        swap_blocks<4>(w);
        for (size_t g = 0; g < kWords; ++g) {
          for (size_t j = 0; j < 8; ++j) tile[8 * g + j][block] = w[j][g];
        }
      }
      for (size_t j = 0; j < width; ++j) std::memcpy(y + (c + j) * pitch + r / 2, tile[j], height / 2);
    }
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
