// Block floating point with shared micro-exponents (docs/numerics.md, "MX4, MX6, MX9"): sub-blocks lower the block's
// exponent by a few steps; mantissas have sign and magnitude, so zeros keep their sign.
#pragma once

#include "kernels/blocks.inl.h"
#include "numerics/block_formats.h"

namespace quarkfast::QF_ISA {
namespace {

template <Rounding kRounding>
struct BfpPrime {
  static constexpr uint32_t kNan = 0x7fffffffu;  // the NaN that Quark writes over a block with infinity or NaN

  explicit BfpPrime(const BfpPrimeParams& p)
      : grid(grid_of(p.mantissa_bits)),
        largest(2.0f - grid.step),
        shift(static_cast<int32_t>(((1u << p.shift_bits) - 1u) << 23)) {}

  uint32_t key(float x) const { return exponent_field(x); }

  // The least exponent field that a sub-block gets within its block; it keeps its own where that is larger. Spelled
  // without a branch on the block, so that it takes part in vectors.
  uint32_t least_of(uint32_t block) const {
    const int32_t lowered = larger(static_cast<int32_t>(block) - shift, 0);
    return block == kExponentField ? block : static_cast<uint32_t>(lowered);
  }

  // x on the grid of its sub-block, in units of 2^(exponent of the sub-block): |result| < 2.
  float on_grid(float x, uint32_t field) const {
    return limited(rounded_to<kRounding>(x * inverse_of(field), grid), -largest, largest);
  }

  float apply(float x, uint32_t field) const {
    const float r = on_grid(x, field);
    const uint32_t own = bit_copy<uint32_t>(x), magnitude = own & ~kSignBit;
    uint32_t bits = bit_copy<uint32_t>(r * scale_of(field)) | (own & kSignBit);
    bits = magnitude < 0x00800000u ? own & kSignBit : bits;  // subnormal inputs count as zero
    return bit_copy<float>(field == kExponentField ? kNan : bits);
  }

  Grid grid;
  float largest;
  int32_t shift;
};

// Whole blocks of 16 elements with sub-blocks of 2, at most a tile of them.
template <Rounding kRounding>
inline void fake_quantize_prime_tile(const float* x, float* y, size_t n, const BfpPrime<kRounding>& given) {
  const BfpPrime<kRounding> f = given;
  float values[kTile];
  uint32_t both[kTile], pair[kTile / 2], four[kTile / 4], eight[kTile / 8], block[kTile / 16];
  for (size_t i = 0; i < n / 2; ++i) {
    const uint32_t key = larger(f.key(x[2 * i]), f.key(x[2 * i + 1]));
    both[2 * i] = both[2 * i + 1] = pair[i] = key;
  }
  std::memcpy(values, x, n * sizeof(float));
  larger_of_pairs(pair, four, n / 4);
  larger_of_pairs(four, eight, n / 8);
  larger_of_pairs(eight, block, n / 16);
  for (size_t i = 0; i < n / 16; ++i) block[i] = f.least_of(block[i]);
  for (size_t i = 0; i < n / 16; ++i) {
    const uint32_t least = block[i];
    prefetch(x + i * 16 + kTile);  // of the next tile
#pragma GCC unroll 1
    for (size_t j = i * 16; j < i * 16 + 16; ++j) y[j] = f.apply(values[j], larger(both[j], least));
  }
}

// One block of n elements.
template <Rounding kRounding>
inline void fake_quantize_prime_block(const float* x, float* y, size_t n, size_t sub_block,
                                      const BfpPrime<kRounding>& f) {
  const uint32_t least = f.least_of(key_of(x, n, f));
  for (size_t k = 0; k < n; k += sub_block) {
    const size_t end = n - k < sub_block ? n : k + sub_block;
    const uint32_t field = larger(least, key_of(x + k, end - k, f));
    for (size_t j = k; j < end; ++j) y[j] = f.apply(x[j], field);
  }
}

template <Rounding kRounding>
inline void fake_quantize_prime_rows(const float* x, float* y, size_t n, const BfpPrimeParams& p,
                                     const BfpPrime<kRounding>& f) {
  size_t i = 0;
  if (p.block == 16 && p.sub_block == 2) {
    for (; n - i >= 16;) {
      const size_t tile = n - i < kTile ? (n - i) / 16 * 16 : kTile;
      fake_quantize_prime_tile(x + i, y + i, tile, f);
      i += tile;
    }
  }
  for (; i < n; i += p.block)
    fake_quantize_prime_block(x + i, y + i, n - i < p.block ? n - i : p.block, p.sub_block, f);
}

template <Rounding kRounding>
inline void fake_quantize_prime_columns(const float* x, float* y, size_t rows, size_t columns, size_t stride,
                                        const BfpPrimeParams& p, const BfpPrime<kRounding>& f) {
  for (size_t at = 0; at < columns; at += kColumns) {
    const size_t n = columns - at < kColumns ? columns - at : kColumns;
    uint32_t key[kColumns] = {};
    for (size_t j = 0; j < rows; ++j) {
      const float* const row = x + j * stride + at;
      prefetch_columns(y + j * stride + at);
      for (size_t i = 0; i < n; ++i) key[i] = larger(key[i], f.key(row[i]));
    }
    for (size_t i = 0; i < n; ++i) key[i] = f.least_of(key[i]);
    for (size_t k = 0; k < rows; k += p.sub_block) {
      const size_t end = rows - k < p.sub_block ? rows : k + p.sub_block;
      uint32_t sub[kColumns] = {};
      for (size_t j = k; j < end; ++j) {
        const float* const row = x + j * stride + at;
        for (size_t i = 0; i < n; ++i) sub[i] = larger(sub[i], f.key(row[i]));
      }
      for (size_t j = k; j < end; ++j) {
        const float* const row = x + j * stride + at;
        float* const out = y + j * stride + at;
        prefetch_columns(row + kColumns);
        for (size_t i = 0; i < n; ++i) out[i] = f.apply(row[i], larger(key[i], sub[i]));
      }
    }
  }
}

// A record: the biased exponent, the micro-exponents, then codes of sign and magnitude. The exponent 255 means NaN.
template <Rounding kRounding>
inline void quantize_prime_block(const float* x, uint8_t* record, const BfpPrimeParams& p,
                                 const BfpPrime<kRounding>& f) {
  const float unit = static_cast<float>(1 << (p.mantissa_bits - 1));
  const uint32_t key = key_of(x, p.block, f);
  uint8_t codes[kLargestPackedBlock], shifts[kLargestPackedBlock];
  for (size_t k = 0; k < p.block; k += p.sub_block) {
    const uint32_t field = larger(f.least_of(key), key_of(x + k, p.sub_block, f));
    shifts[k / p.sub_block] = static_cast<uint8_t>((key - field) >> 23);
    for (size_t j = k; j < k + p.sub_block; ++j) {
      const uint32_t own = bit_copy<uint32_t>(x[j]), magnitude = own & ~kSignBit;
      const bool zero = magnitude < 0x00800000u || key == kExponentField;
      const float r = bit_copy<float>(bit_copy<uint32_t>(f.on_grid(x[j], field)) & ~kSignBit);
      const uint32_t code = zero ? 0u : static_cast<uint32_t>(static_cast<int32_t>(r * unit));
      codes[j] = static_cast<uint8_t>(code | ((own >> 31) << p.mantissa_bits));
    }
  }
  record[0] = static_cast<uint8_t>(key >> 23);
  store_bits(shifts, p.block / p.sub_block, p.shift_bits, record + 1);
  store_bits(codes, p.block, code_bits(p), record + 1 + shift_bytes(p));
}

void dequantize_bfp_prime_f32(const uint8_t* records, float* y, size_t blocks, const BfpPrimeParams& p) {
  const int32_t sign = 1 << p.mantissa_bits;
  const float unit = 2.0f / static_cast<float>(sign);
  uint8_t codes[kLargestPackedBlock], shifts[kLargestPackedBlock];
  for (size_t i = 0; i < blocks; ++i, records += record_bytes(p), y += p.block) {
    load_bits(records + 1, p.block / p.sub_block, p.shift_bits, shifts);
    load_bits(records + 1 + shift_bytes(p), p.block, code_bits(p), codes);
    for (size_t j = 0; j < p.block; ++j) {
      const uint32_t field = (static_cast<uint32_t>(records[0]) - shifts[j / p.sub_block]) << 23;
      const float magnitude = static_cast<float>(codes[j] & (sign - 1)) * unit * scale_of(field & kExponentField);
      const uint32_t bits = bit_copy<uint32_t>(magnitude) | (codes[j] & sign ? kSignBit : 0u);
      y[j] = bit_copy<float>(records[0] == 255 ? BfpPrime<Rounding::kHalfEven>::kNan : bits);
    }
  }
}

template <class Body>
inline void with_bfp_prime(const BfpPrimeParams& p, Body&& body) {
  switch (p.rounding) {
    case Rounding::kHalfAway:
      return body(BfpPrime<Rounding::kHalfAway>(p));
    case Rounding::kHalfUp:
      return body(BfpPrime<Rounding::kHalfUp>(p));
    case Rounding::kHalfEven:
      return body(BfpPrime<Rounding::kHalfEven>(p));
  }
}

void fake_quantize_bfp_prime_f32(const float* x, float* y, size_t n, const BfpPrimeParams& p) {
  with_bfp_prime(p, [=](const auto& f) { fake_quantize_prime_rows(x, y, n, p, f); });
}

void fake_quantize_columns_bfp_prime_f32(const float* x, float* y, size_t rows, size_t columns, size_t stride,
                                         const BfpPrimeParams& p) {
  with_bfp_prime(p, [=](const auto& f) { fake_quantize_prime_columns(x, y, rows, columns, stride, p, f); });
}

void quantize_bfp_prime_f32(const float* x, uint8_t* records, size_t blocks, const BfpPrimeParams& p) {
  with_bfp_prime(p, [=](const auto& f) {
    for (size_t i = 0; i < blocks; ++i) quantize_prime_block(x + i * p.block, records + i * record_bytes(p), p, f);
  });
}

}  // namespace
}  // namespace quarkfast::QF_ISA
