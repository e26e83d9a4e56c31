// The block formats: what a caller chooses, and the element types as rows of traits (docs/numerics.md, "Block
// formats").
#pragma once

#include <cstddef>
#include <cstdint>

namespace quarkfast {

// What happens half way between two codes. The numbers are those of Quark's attribute rounding_mode.
enum class Rounding : int32_t { kHalfAway = 0, kHalfUp = 1, kHalfEven = 2 };

// Block floating point: one exponent for a block, a two's complement mantissa for each element.
struct BfpParams {
  size_t block;           // elements that share an exponent, > 0
  int32_t mantissa_bits;  // without the sign: 7 for BFP16; 1 to 22
  Rounding rounding;
  bool raise_exponent;  // a block whose largest value rounds to 2^mantissa_bits gets the next exponent, not saturation
};

// Block floating point with shared micro-exponents: sub-blocks may lower the block's exponent by up to
// 2^shift_bits - 1. Mantissas have sign and magnitude.
struct BfpPrimeParams {
  size_t block;           // elements that share an exponent, a multiple of sub_block
  size_t sub_block;       // elements that share a shift, > 0
  int32_t shift_bits;     // 1 for MX4, MX6 and MX9; 0 to 7
  int32_t mantissa_bits;  // without the sign: 2, 4, 7 for MX4, MX6, MX9; 1 to 22
  Rounding rounding;
};

// Element types of the OCP microscaling formats.
enum class MxElement : int32_t { kE5M2, kE4M3, kE3M2, kE2M3, kE2M1, kInt8 };

// Where the OCP specification leaves a choice or AMD Quark departs from it.
enum class MxRule : int32_t {
  kQuark,  // scale 2^X with any X, zeros of float elements are +0, infinities and NaN pass through
  kOcp,    // X within [-127, 127], zeros keep their sign, a block with infinity or NaN becomes NaN
};

struct MxParams {
  size_t block;  // elements that share a scale, > 0; 32 in the specification
  MxElement element;
  Rounding rounding;  // of int8 elements; floats are always rounded half to even
  MxRule rule;
};

// One float element type: the value of code (e, m) is 2^(max(e, 1) - bias) * (m / 2^mantissa_bits + (e ? 1 : 0)).
struct MxFloat {
  int32_t mantissa_bits;
  int32_t bias;
  int32_t emax;   // exponent of the largest value
  float largest;  // largest value
  int32_t bits;   // of a stored element
};

// Rows in the order of MxElement; int8 has none.
inline constexpr MxFloat kMxFloats[] = {
    {2, 15, 15, 57344.0f, 8},  // e5m2
    {3, 7, 8, 448.0f, 8},      // e4m3
    {2, 3, 4, 28.0f, 6},       // e3m2
    {3, 1, 2, 7.5f, 6},        // e2m3
    {1, 1, 2, 6.0f, 4},        // e2m1
};

constexpr const MxFloat& mx_float(MxElement element) {
  return kMxFloats[static_cast<int32_t>(element)];
}

// Code of the largest value, without the sign.
constexpr uint32_t mx_largest_code(const MxFloat& e) {
  // largest = 2^emax * (1 + fraction), and the code of 2^emax has the exponent emax + bias.
  float fraction = e.largest;
  for (int32_t i = 0; i < e.emax; ++i) fraction *= 0.5f;
  const float mantissa = (fraction - 1.0f) * static_cast<float>(1 << e.mantissa_bits);
  return (static_cast<uint32_t>(e.emax + e.bias) << e.mantissa_bits) + static_cast<uint32_t>(mantissa);
}

// Integer codes with a float32 scale and, where they are asymmetric, a zero point for each block. Storage only: the
// codes and scales come from linear quantization.
struct LinearBlockParams {
  size_t block;         // elements that share a scale
  int32_t bits;         // 2, 3, 4 or 8
  bool is_signed;       // two's complement
  bool has_zero_point;  // a byte of a record, in the type of the codes
};

// Packed storage: one record for a block. Code widths are at most 8 bits and blocks multiples of 8 (bfp_prime: also
// multiples of 8 sub-blocks), so that every part fills whole bytes.
inline constexpr size_t kLargestPackedBlock = 256;

constexpr int32_t code_bits(const BfpParams& p) {
  return p.mantissa_bits + 1;
}

constexpr int32_t code_bits(const BfpPrimeParams& p) {
  return p.mantissa_bits + 1;
}

constexpr int32_t code_bits(const MxParams& p) {
  return p.element == MxElement::kInt8 ? 8 : mx_float(p.element).bits;
}

constexpr int32_t code_bits(const LinearBlockParams& p) {
  return p.bits;
}

// Bytes of micro-exponents in a record.
constexpr size_t shift_bytes(const BfpPrimeParams& p) {
  return p.block / p.sub_block / 8 * static_cast<size_t>(p.shift_bits);
}

constexpr size_t record_bytes(const BfpParams& p) {
  return 1 + p.block / 8 * static_cast<size_t>(code_bits(p));
}

constexpr size_t record_bytes(const BfpPrimeParams& p) {
  return 1 + shift_bytes(p) + p.block / 8 * static_cast<size_t>(code_bits(p));
}

constexpr size_t record_bytes(const MxParams& p) {
  return 1 + p.block / 8 * static_cast<size_t>(code_bits(p));
}

// Bytes of the scale, and of the zero point, before the codes.
constexpr size_t head_bytes(const LinearBlockParams& p) {
  return sizeof(float) + (p.has_zero_point ? 1 : 0);
}

constexpr size_t record_bytes(const LinearBlockParams& p) {
  return head_bytes(p) + p.block / 8 * static_cast<size_t>(code_bits(p));
}

}  // namespace quarkfast
