// Block floating point (docs/numerics.md, "BFP"): one exponent for a block, two's complement mantissas.
#pragma once

#include "kernels/blocks.inl.h"
#include "numerics/block_formats.h"

namespace quarkfast::QF_ISA {
namespace {

// The key of a block is the largest exponent field among its finite values. With kRaise, bit 22 tells whether a
// positive value of that exponent rounds to the next power of two; all three roundings agree on which do.
template <Rounding kRounding, bool kRaise>
struct Bfp {
  static constexpr uint32_t kRaised = 1u << 22;

  explicit Bfp(const BfpParams& p)
      : grid(grid_of(p.mantissa_bits)),
        coarse(grid_of(p.mantissa_bits - 1)),
        low(grid.step - 2.0f),
        high(2.0f - grid.step),
        underflow(0x1p-60f * grid.step),
        rising(0x7fffffu & ~(0x7fffffu >> p.mantissa_bits)),
        rising_subnormal(0x7fffffu & ~(0x7fffffu >> (p.mantissa_bits + 1))) {}

  uint32_t key(float x) const {
    const uint32_t field = finite_exponent_field(x);
    if constexpr (!kRaise) return field;
    const uint32_t bits = bit_copy<uint32_t>(x);
    const uint32_t least = field | (field ? rising : rising_subnormal);
    const bool rises = bits >= least && bits < kExponentField;  // false for negative x, which has bit 31
    return field | (rises ? kRaised : 0u);
  }

  static uint32_t field_of(uint32_t key) { return kRaise ? key & kExponentField : key; }
  static bool raised(uint32_t key) { return kRaise && (key & kRaised) != 0; }

  // x on the grid of its block, in units of 2^(exponent of the block): |result| <= 2.
  float on_grid(float x, uint32_t key) const {
    const float v = x * inverse_of(field_of(key));
    if constexpr (!kRaise) return limited(rounded_to<kRounding>(v, grid), low, high);
    const bool up = raised(key);
    return rounded_to<kRounding>(
        v, {up ? coarse.magic : grid.magic, up ? coarse.half : grid.half, up ? coarse.step : grid.step});
  }

  float apply(float x, uint32_t key) const {
    const float scale = scale_of(field_of(key));
    uint32_t bits = bit_copy<uint32_t>(on_grid(x, key) * scale);
    const uint32_t own = bit_copy<uint32_t>(x), magnitude = own & ~kSignBit;
    if constexpr (kRounding == Rounding::kHalfEven) {
      // Quark divides by the step in float32; a quotient that underflows to zero keeps its sign, other zeros lose it.
      // Both sides are 2^90 times the truth, which would be subnormal: slow on many processors.
      const float tiny = scale * underflow;
      const bool vanishes = bit_copy<float>(magnitude) * 0x1p90f <= (raised(key) ? tiny + tiny : tiny);
      bits |= vanishes ? own & kSignBit : 0u;
    }
    return bit_copy<float>(magnitude < kExponentField ? bits : own);
  }

  Grid grid, coarse;  // coarse: of a raised exponent
  float low, high;
  float underflow;                    // 2^90 * 2^-150 * step: quotients up to 2^-150 round to zero in float32
  uint32_t rising, rising_subnormal;  // mantissas from which a value rounds up to the next power of two
};

template <class Body>
inline void with_bfp(const BfpParams& p, Body&& body) {
  switch (p.rounding) {
    case Rounding::kHalfAway:
      return p.raise_exponent ? body(Bfp<Rounding::kHalfAway, true>(p)) : body(Bfp<Rounding::kHalfAway, false>(p));
    case Rounding::kHalfUp:
      return p.raise_exponent ? body(Bfp<Rounding::kHalfUp, true>(p)) : body(Bfp<Rounding::kHalfUp, false>(p));
    case Rounding::kHalfEven:
      return p.raise_exponent ? body(Bfp<Rounding::kHalfEven, true>(p)) : body(Bfp<Rounding::kHalfEven, false>(p));
  }
}

void fake_quantize_bfp_f32(const float* x, float* y, size_t n, const BfpParams& p) {
  with_bfp(p, [=](const auto& f) { fake_quantize_rows(x, y, n, p.block, f); });
}

void fake_quantize_columns_bfp_f32(const float* x, float* y, size_t rows, size_t columns, size_t stride,
                                   const BfpParams& p) {
  with_bfp(p, [=](const auto& f) { fake_quantize_columns(x, y, rows, columns, stride, f); });
}

// A record: the biased exponent, then two's complement codes. A block with infinity or NaN gets the exponent 255, whose
// codes are multiples of 2^122: NaN is the code -128, infinities are +-127 and finite values saturate at +-63.
template <class Format>
inline void quantize_bfp_block(const float* x, uint8_t* record, const BfpParams& p, const Format& f) {
  const int32_t bits = code_bits(p), top = 1 << p.mantissa_bits;
  const uint32_t key = key_of(x, p.block, f);
  const float unit = static_cast<float>(top) * (f.raised(key) ? 0.25f : 0.5f);
  uint8_t codes[kLargestPackedBlock];
  uint32_t peak = 0;
  for (size_t j = 0; j < p.block; ++j) {
    codes[j] = static_cast<uint8_t>(static_cast<int32_t>(f.on_grid(x[j], key) * unit));
    peak = larger(peak, bit_copy<uint32_t>(x[j]) & ~kSignBit);
  }
  record[0] = static_cast<uint8_t>((f.field_of(key) >> 23) + (f.raised(key) ? 1u : 0u));
  if (peak >= kExponentField) {
    record[0] = 255;
    for (size_t j = 0; j < p.block; ++j) {
      const uint32_t magnitude = bit_copy<uint32_t>(x[j]) & ~kSignBit;
      const int32_t top_code = magnitude == kExponentField ? top - 1 : top / 2 - 1;
      const float limit = static_cast<float>(top_code), v = x[j] * 0x1p-127f * 0.25f * static_cast<float>(top);
      const int32_t code = magnitude > kExponentField ? -top : static_cast<int32_t>(limited(v, -limit, limit));
      codes[j] = static_cast<uint8_t>(code);
    }
  }
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
  for (size_t j = 0; j < p.block; ++j) codes[j] &= mask;
  store_bits(codes, p.block, bits, record + 1);
}

void quantize_bfp_f32(const float* x, uint8_t* records, size_t blocks, const BfpParams& p) {
  with_bfp(p, [=](const auto& f) {
    for (size_t i = 0; i < blocks; ++i) quantize_bfp_block(x + i * p.block, records + i * record_bytes(p), p, f);
  });
}

void dequantize_bfp_f32(const uint8_t* records, float* y, size_t blocks, const BfpParams& p) {
  const int32_t bits = code_bits(p), sign = 1 << p.mantissa_bits;
  const float unit = 2.0f / static_cast<float>(sign);
  uint8_t codes[kLargestPackedBlock];
  for (size_t i = 0; i < blocks; ++i, records += record_bytes(p), y += p.block) {
    const bool special = records[0] == 255;
    // Two factors, because the exponent 255 alone is no float32.
    const float scale = scale_of((special ? 254u : records[0]) << 23), more = special ? 2.0f * unit : unit;
    load_bits(records + 1, p.block, bits, codes);
    for (size_t j = 0; j < p.block; ++j) {
      const int32_t code = (codes[j] ^ sign) - sign;
      const float v = static_cast<float>(code) * more * scale;
      y[j] = special && code == -sign ? bit_copy<float>(kQuietNan) : v;
    }
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
