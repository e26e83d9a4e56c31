// What the block formats share: the largest exponent of each block, powers of two, rounding to a grid.
//
// Exponents stay in place, as the bits 23..30 of a float32, so that finding and applying them needs no shifts. Values
// are scaled by the power of two that brings the largest of a block into [1, 2), or [0, 2) for a block of subnormals;
// the grid of codes is then the same for every block, and rounding to it is an addition and a subtraction. All products
// are by powers of two and exact, or so small that they round to zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bits.inl.h"
#include "numerics/block_formats.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kExponentField = 0x7f800000u;
constexpr uint32_t kQuietNan = 0x7fc00000u;

// Blocks of 8, 16 and 32 are handled tile by tile: 4 KiB of input stay in the first-level cache between the passes.
constexpr size_t kTile = 1024;
// Columns handled together where blocks run across rows: a few vectors of constants.
constexpr size_t kColumns = 128;
constexpr size_t kCacheLine = 64 / sizeof(float);

inline uint32_t exponent_field(float x) {
  return bit_copy<uint32_t>(x) & kExponentField;
}

// 0 for infinity and NaN.
inline uint32_t finite_exponent_field(float x) {
  const uint32_t field = exponent_field(x);
  return field == kExponentField ? 0u : field;
}

// 2^(field - 127), and 2^-127 for a field of zero: the scale of a block whose largest exponent field this is. Spelled
// as a maximum, because GCC makes of a selection two multiplications, one of them by the subnormal 2^-127, for which
// a Cascade Lake takes 168 cycles (measured: 6 times the time of the whole kernel).
inline float scale_of(uint32_t field) {
  return bit_copy<float>(larger(field, 0x00400000u));
}

// 1 / scale_of(field); the largest finite field, 254, gives the subnormal 2^-127.
inline float inverse_of(uint32_t field) {
  return bit_copy<float>(larger((254u << 23) - field, 0x00400000u));
}

// The multiples of 2^(1 - mantissa_bits), for |v| < 2.
struct Grid {
  float magic;  // adding and subtracting it rounds half to even to a multiple of step
  float half;   // step / 2
  float step;
};

inline Grid grid_of(int32_t mantissa_bits) {
  const float step = bit_copy<float>(static_cast<uint32_t>(128 - mantissa_bits) << 23);
  return {12582912.0f * step, 0.5f * step, step};
}

// v rounded to the grid. The sign of a zero is that of v, but for rounding half to even, which gives +0.
template <Rounding kRounding>
inline float rounded_to(float v, const Grid& g) {
  if constexpr (kRounding == Rounding::kHalfEven) return (v + g.magic) - g.magic;
  const uint32_t sign = bit_copy<uint32_t>(v) & kSignBit;
  const float a = kRounding == Rounding::kHalfUp ? v : bit_copy<float>(bit_copy<uint32_t>(v) & ~kSignBit);
  const float even = (a + g.magic) - g.magic;
  const float r = a - even == g.half ? even + g.step : even;  // the difference is exact
  return bit_copy<float>(bit_copy<uint32_t>(r) | sign);
}

inline float limited(float v, float low, float high) {
  v = v > low ? v : low;
  return v < high ? v : high;
}

// Each element of `half` becomes the larger of two neighbours.
inline void larger_of_pairs(const uint32_t* __restrict whole, uint32_t* __restrict half, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) half[i] = larger(whole[2 * i], whole[2 * i + 1]);
}

// Whole blocks of kBlock elements, at most a tile of them. Format has key(x), the part of an element in its block's
// key (the largest wins), and apply(x, key).
template <size_t kBlock, class Format>
inline void fake_quantize_tile(const float* x, float* y, size_t n, const Format& given) {
  const Format f = given;
  float values[kTile];
  uint32_t a[kTile], b[kTile / 2];
  std::memcpy(values, x, n * sizeof(float));
  for (size_t i = 0; i < n; ++i) a[i] = f.key(values[i]);
  uint32_t *from = a, *to = b;
  for (size_t width = kBlock; width > 1; width /= 2) {
    larger_of_pairs(from, to, n / kBlock * width / 2);
    uint32_t* const swap = from;
    from = to;
    to = swap;
  }
  for (size_t i = 0; i < n / kBlock; ++i) {
    const uint32_t key = from[i];
    prefetch(x + i * kBlock + kTile);  // of the next tile
#pragma GCC unroll 1
    for (size_t j = 0; j < kBlock; ++j) y[i * kBlock + j] = f.apply(values[i * kBlock + j], key);
  }
}

template <class Format>
inline uint32_t key_of(const float* x, size_t n, const Format& f) {
  uint32_t key = 0;
  for (size_t j = 0; j < n; ++j) key = larger(key, f.key(x[j]));
  return key;
}

// One block of n elements.
template <class Format>
inline void fake_quantize_block(const float* x, float* y, size_t n, const Format& f) {
  const uint32_t key = key_of(x, n, f);
  for (size_t j = 0; j < n; ++j) y[j] = f.apply(x[j], key);
}

template <size_t kBlock, class Format>
inline void fake_quantize_blocks(const float* x, float* y, size_t n, const Format& f) {
  const size_t whole = n / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kTile) {
    fake_quantize_tile<kBlock>(x + i, y + i, whole - i < kTile ? whole - i : kTile, f);
  }
  if (whole < n) fake_quantize_block(x + whole, y + whole, n - whole, f);
}

// n elements in consecutive blocks, the last of which may be short.
template <class Format>
inline void fake_quantize_rows(const float* x, float* y, size_t n, size_t block, const Format& f) {
  if (block == 8) return fake_quantize_blocks<8>(x, y, n, f);
  if (block == 16) return fake_quantize_blocks<16>(x, y, n, f);
  if (block == 32) return fake_quantize_blocks<32>(x, y, n, f);
  for (size_t i = 0; i < n; i += block) fake_quantize_block(x + i, y + i, n - i < block ? n - i : block, f);
}

// Rows that lie a page apart are too many streams for the processor to follow, so what is needed next is called for
// here (measured: blocks of 32 rows take 6.3 ms without, 3.7 ms with, where copying the array takes 3.3 ms).
inline void prefetch_columns(const float* row) {
  for (size_t i = 0; i < kColumns; i += kCacheLine) prefetch(row + i);
}

// `columns` blocks side by side: element j of block i is x[j * stride + i].
template <class Format>
inline void fake_quantize_columns(const float* x, float* y, size_t rows, size_t columns, size_t stride,
                                  const Format& f) {
  for (size_t at = 0; at < columns; at += kColumns) {
    const size_t n = columns - at < kColumns ? columns - at : kColumns;
    uint32_t key[kColumns] = {};
    for (size_t j = 0; j < rows; ++j) {
      const float* const row = x + j * stride + at;
      prefetch_columns(y + j * stride + at);
      for (size_t i = 0; i < n; ++i) key[i] = larger(key[i], f.key(row[i]));
    }
    for (size_t j = 0; j < rows; ++j) {
      const float* const row = x + j * stride + at;
      float* const out = y + j * stride + at;
      prefetch_columns(row + kColumns);
      for (size_t i = 0; i < n; ++i) out[i] = f.apply(row[i], key[i]);
    }
  }
}

// Codes of `bits` bits as a stream, least significant bit first: eight codes fill `bits` bytes. n is a multiple of 8.
inline void store_bits(const uint8_t* codes, size_t n, int32_t bits, uint8_t* out) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    for (size_t j = 0; j < 8; ++j) word |= static_cast<uint64_t>(codes[i + j]) << (j * static_cast<size_t>(bits));
    for (int32_t j = 0; j < bits; ++j) *out++ = static_cast<uint8_t>(word >> (8 * j));
  }
}

inline void load_bits(const uint8_t* in, size_t n, int32_t bits, uint8_t* codes) {
  const uint64_t mask = (1u << bits) - 1u;
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    for (int32_t j = 0; j < bits; ++j) word |= static_cast<uint64_t>(*in++) << (8 * j);
    for (size_t j = 0; j < 8; ++j)
      codes[i + j] = static_cast<uint8_t>((word >> (j * static_cast<size_t>(bits))) & mask);
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
