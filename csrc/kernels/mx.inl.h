// OCP microscaling formats (docs/numerics.md, "OCP MX"): a power-of-two scale for a block, small floats or int8 as
// elements.
#pragma once

#include "kernels/bfp.inl.h"
#include "kernels/blocks.inl.h"
#include "numerics/block_formats.h"

namespace quarkfast::QF_ISA {
namespace {

// The smallest scale of OCP is 2^-127: blocks whose largest exponent is below emax - 127 count as if they reached it.
inline uint32_t at_least(uint32_t field, int32_t emax) {
  return larger(field, static_cast<uint32_t>(emax) << 23);
}

template <MxRule kRule>
inline uint32_t mx_key(float x) {
  return kRule == MxRule::kQuark ? finite_exponent_field(x) : exponent_field(x);
}

// Float elements. With a = |x| scaled to [0, 2), the spacing of codes is 2^-mantissa_bits at the exponent of a, but not
// finer than that of the element's subnormals; adding and subtracting 2^23 times the spacing rounds half to even to it.
template <MxRule kRule>
struct MxFloats {
  explicit MxFloats(const MxFloat& e)
      : emax(e.emax),
        mantissa_bits(e.mantissa_bits),
        largest_code(mx_largest_code(e)),
        least(static_cast<uint32_t>(128 - e.bias - e.emax) << 23),
        up(static_cast<uint32_t>(23 - e.mantissa_bits) << 23),
        largest(e.largest * bit_copy<float>(static_cast<uint32_t>(127 - e.emax) << 23)) {}

  uint32_t key(float x) const { return mx_key<kRule>(x); }

  uint32_t field_of(uint32_t key) const { return kRule == MxRule::kOcp ? at_least(key, emax) : key; }

  float apply(float x, uint32_t key) const {
    const uint32_t field = field_of(key);
    const uint32_t own = bit_copy<uint32_t>(x), magnitude = own & ~kSignBit;
    const float a = bit_copy<float>(magnitude) * inverse_of(field);
    const float magic = bit_copy<float>(larger(exponent_field(a), least) + up);
    const float rounded = (a + magic) - magic;
    const float r = rounded < largest ? rounded : largest;
    const uint32_t sign = kRule == MxRule::kOcp || r > 0.0f ? own & kSignBit : 0u;
    const uint32_t bits = bit_copy<uint32_t>(r * scale_of(field)) | sign;
    if constexpr (kRule == MxRule::kOcp) return bit_copy<float>(key == kExponentField ? kQuietNan : bits);
    return bit_copy<float>(magnitude < kExponentField ? bits : own);
  }

  // The code without its sign: the exponent's steps above the subnormals, plus the significand in units of the spacing.
  uint32_t code(float x, uint32_t key) const {
    const float a = bit_copy<float>(bit_copy<uint32_t>(x) & ~kSignBit) * inverse_of(field_of(key));
    const uint32_t exponent = larger(exponent_field(a), least), magic = exponent + up;
    const uint32_t significand = bit_copy<uint32_t>(a + bit_copy<float>(magic)) - magic;
    const uint32_t found = ((exponent - least) >> (23 - mantissa_bits)) + significand;
    return found < largest_code ? found : largest_code;
  }

  int32_t emax, mantissa_bits;
  uint32_t largest_code;
  uint32_t least, up;  // exponent fields: of the smallest normal element, and of 2^(23 - mantissa_bits)
  float largest;
};

// int8 elements are BFP16 mantissas with the code -128 in use.
template <Rounding kRounding, MxRule kRule>
struct MxInt8 {
  explicit MxInt8(const MxParams& p) : bfp(BfpParams{p.block, 7, kRounding, false}) {
    bfp.low = -2.0f;
    bfp.underflow = 0x1p-60f;  // the quotient by the scale underflows, not that by the step
  }

  uint32_t key(float x) const { return mx_key<kRule>(x); }

  float apply(float x, uint32_t key) const {
    const float y = bfp.apply(x, key);
    if constexpr (kRule == MxRule::kQuark) return y;
    return key == kExponentField ? bit_copy<float>(kQuietNan) : y + 0.0f;  // -0 + 0 = +0: int8 has one zero
  }

  Bfp<kRounding, false> bfp;
};

template <class Body>
inline void with_mx_int8(const MxParams& p, Body&& body) {
  const bool ocp = p.rule == MxRule::kOcp;
  switch (p.rounding) {
    case Rounding::kHalfAway:
      return ocp ? body(MxInt8<Rounding::kHalfAway, MxRule::kOcp>(p))
                 : body(MxInt8<Rounding::kHalfAway, MxRule::kQuark>(p));
    case Rounding::kHalfUp:
      return ocp ? body(MxInt8<Rounding::kHalfUp, MxRule::kOcp>(p))
                 : body(MxInt8<Rounding::kHalfUp, MxRule::kQuark>(p));
    case Rounding::kHalfEven:
      return ocp ? body(MxInt8<Rounding::kHalfEven, MxRule::kOcp>(p))
                 : body(MxInt8<Rounding::kHalfEven, MxRule::kQuark>(p));
  }
}

template <class Body>
inline void with_mx(const MxParams& p, Body&& body) {
  if (p.element == MxElement::kInt8) return with_mx_int8(p, body);
  const MxFloat& element = mx_float(p.element);
  p.rule == MxRule::kOcp ? body(MxFloats<MxRule::kOcp>(element)) : body(MxFloats<MxRule::kQuark>(element));
}

void fake_quantize_mx_f32(const float* x, float* y, size_t n, const MxParams& p) {
  with_mx(p, [=](const auto& f) { fake_quantize_rows(x, y, n, p.block, f); });
}

void fake_quantize_columns_mx_f32(const float* x, float* y, size_t rows, size_t columns, size_t stride,
                                  const MxParams& p) {
  with_mx(p, [=](const auto& f) { fake_quantize_columns(x, y, rows, columns, stride, f); });
}

// A record: the scale as e8m0 (255 for NaN), then the elements' codes, those of floats with the sign on top.
inline void quantize_mx_float_block(const float* x, uint8_t* record, const MxParams& p,
                                    const MxFloats<MxRule::kOcp>& f) {
  const int32_t bits = code_bits(p);
  const uint32_t key = key_of(x, p.block, f);
  uint8_t codes[kLargestPackedBlock];
  for (size_t j = 0; j < p.block; ++j) {
    const uint32_t sign = bit_copy<uint32_t>(x[j]) >> 31;
    codes[j] = static_cast<uint8_t>(key == kExponentField ? 0u : f.code(x[j], key) | (sign << (bits - 1)));
  }
  const uint32_t scale = (f.field_of(key) >> 23) - static_cast<uint32_t>(f.emax);
  record[0] = static_cast<uint8_t>(key == kExponentField ? 255u : scale);
  store_bits(codes, p.block, bits, record + 1);
}

template <class Format>
inline void quantize_mx_int8_block(const float* x, uint8_t* record, const MxParams& p, const Format& f) {
  const uint32_t key = key_of(x, p.block, f);
  record[0] = static_cast<uint8_t>(key >> 23);
  for (size_t j = 0; j < p.block; ++j) {
    const float code = key == kExponentField ? 0.0f : f.bfp.on_grid(x[j], key) * 64.0f;
    record[1 + j] = static_cast<uint8_t>(static_cast<int32_t>(code));
  }
}

void quantize_mx_f32(const float* x, uint8_t* records, size_t blocks, const MxParams& p) {
  const size_t bytes = record_bytes(p);
  if (p.element == MxElement::kInt8) {
    return with_mx_int8({p.block, p.element, p.rounding, MxRule::kOcp}, [=](const auto& f) {
      for (size_t i = 0; i < blocks; ++i) quantize_mx_int8_block(x + i * p.block, records + i * bytes, p, f);
    });
  }
  const MxFloats<MxRule::kOcp> f(mx_float(p.element));
  for (size_t i = 0; i < blocks; ++i) quantize_mx_float_block(x + i * p.block, records + i * bytes, p, f);
}

// The value of a code without its sign. Normal codes are float32 with another bias; a subnormal code is read as if it
// had the implicit one, which is then taken away.
inline float mx_value(uint32_t code, const MxFloat& e) {
  const uint32_t subnormal = code >> e.mantissa_bits ? 0u : 1u;
  const uint32_t base = static_cast<uint32_t>(127 - e.bias) << 23;
  const uint32_t bits = (code << (23 - e.mantissa_bits)) + base + (subnormal << 23);
  return bit_copy<float>(bits) - (subnormal ? bit_copy<float>(base + (1u << 23)) : 0.0f);
}

void dequantize_mx_f32(const uint8_t* records, float* y, size_t blocks, const MxParams& p) {
  const int32_t bits = code_bits(p), sign = 1 << (bits - 1);
  uint8_t codes[kLargestPackedBlock];
  for (size_t i = 0; i < blocks; ++i, records += record_bytes(p), y += p.block) {
    const float scale = scale_of(static_cast<uint32_t>(records[0]) << 23);
    load_bits(records + 1, p.block, bits, codes);
    for (size_t j = 0; j < p.block; ++j) {
      float v;
      if (p.element == MxElement::kInt8) {
        v = static_cast<float>((codes[j] ^ sign) - sign) * 0x1p-6f;
      } else {
        v = mx_value(static_cast<uint32_t>(codes[j] & (sign - 1)), mx_float(p.element));
        v = codes[j] & sign ? -v : v;
      }
      y[j] = records[0] == 255 ? bit_copy<float>(kQuietNan) : v * scale;
    }
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
