// Blocks of float4 codes with their scales apart: MXFP4 with power-of-two scales (e8m0), NVFP4 with scales in e4m3 and
// one float32 for the whole tensor (docs/numerics.md, "MXFP4 and NVFP4 in parts").
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/mx.inl.h"
#include "kernels/small_floats.inl.h"
#include "numerics/fp4.h"

namespace quarkfast::QF_ISA {
namespace {

// Values that one step brings into cache between the passes.
constexpr size_t kFp4Tile = 512;

// Codes of four bits, the first of a byte in its low half.
inline void store_fp4(const uint32_t* codes, uint8_t* to, size_t n) {
  for (size_t j = 0; j < n / 2; ++j) to[j] = static_cast<uint8_t>(codes[2 * j] | (codes[2 * j + 1] << 4));
}

// The code of |v| rounded half to even to 0, 0.5, 1, 1.5, 2, 3, 4 or 6, what is more becoming 6; with the sign of v.
inline uint32_t fp4_code(float v) {
  return encoded<e2m1fn, true>(v);
}

inline float fp4_value(uint32_t code) {
  return decoded<e2m1fn>(static_cast<uint8_t>(code));
}

inline void quantize_mxfp4_block(const float* x, uint32_t* codes, uint8_t* scale, size_t block,
                                 const MxFloats<MxRule::kOcp>& f) {
  const uint32_t key = key_of(x, block, f);
  const bool finite = key != kExponentField;
  for (size_t j = 0; j < block; ++j) {
    const uint32_t sign = bit_copy<uint32_t>(x[j]) >> 31 << 3;
    codes[j] = finite ? f.code(x[j], key) | sign : 0u;
  }
  *scale = static_cast<uint8_t>(finite ? (f.field_of(key) >> 23) - static_cast<uint32_t>(f.emax) : 255u);
}

void quantize_mxfp4_f32(const float* x, uint8_t* codes, uint8_t* scales, size_t blocks, size_t block) {
  const MxFloats<MxRule::kOcp> f(mx_float(MxElement::kE2M1));
  uint32_t wide[kLargestFp4Block];
  for (size_t i = 0; i < blocks; ++i) {
    if (block == 32) {  // a constant count is unrolled into vectors
      quantize_mxfp4_block(x + i * 32, wide, scales + i, 32, f);
      store_fp4(wide, codes + i * 16, 32);
    } else {
      quantize_mxfp4_block(x + i * 16, wide, scales + i, 16, f);
      store_fp4(wide, codes + i * 8, 16);
    }
  }
}

// Values of codes times the scale of their block, `block` of them each.
inline void dequantize_fp4_block(const uint8_t* codes, float* y, size_t block, float scale) {
  float values[kLargestFp4Block];
  for (size_t j = 0; j < block / 2; ++j) {
    values[2 * j] = fp4_value(codes[j] & 15u);
    values[2 * j + 1] = fp4_value(codes[j] >> 4);
  }
  for (size_t j = 0; j < block; ++j) y[j] = values[j] * scale;
}

void dequantize_mxfp4_f32(const uint8_t* codes, const uint8_t* scales, float* y, size_t blocks, size_t block) {
  for (size_t i = 0; i < blocks; ++i) {
    const float scale =
        scales[i] == 255 ? bit_copy<float>(kQuietNan) : scale_of(static_cast<uint32_t>(scales[i]) << 23);
    if (block == 32) {
      dequantize_fp4_block(codes + i * 16, y + i * 32, 32, scale);
    } else {
      dequantize_fp4_block(codes + i * 8, y + i * 16, 16, scale);
    }
  }
}

// The scale of a block is its largest magnitude / 6 / the tensor's scale in e4m3, at least its smallest value: a scale
// is never 0.
void quantize_nvfp4_f32(const float* x, uint8_t* codes, uint8_t* scales, size_t blocks, float tensor_scale) {
  for (size_t i = 0; i < blocks; ++i, x += kNvFp4Block, codes += kNvFp4Block / 2) {
    uint32_t top = 0;
    for (size_t j = 0; j < kNvFp4Block; ++j) top = larger(top, bit_copy<uint32_t>(x[j]) & ~kSignBit);
    const bool finite = top < kExponentField;
    const uint8_t nearest = encoded<e4m3fn, true>(bit_copy<float>(top) / 6.0f / tensor_scale);
    const uint8_t code = finite ? larger(nearest, uint8_t{1}) : kNvFp4Nan;
    const float scale = decoded<e4m3fn>(code) * tensor_scale;
    uint32_t wide[kNvFp4Block];
    for (size_t j = 0; j < kNvFp4Block; ++j) wide[j] = finite ? fp4_code(x[j] / scale) : 0u;
    scales[i] = code;
    store_fp4(wide, codes, kNvFp4Block);
  }
}

void dequantize_nvfp4_f32(const uint8_t* codes, const uint8_t* scales, float* y, size_t blocks, float tensor_scale) {
  for (size_t i = 0; i < blocks; ++i) {
    const float scale = decoded<e4m3fn>(scales[i]) * tensor_scale;
    dequantize_fp4_block(codes + i * (kNvFp4Block / 2), y + i * kNvFp4Block, kNvFp4Block, scale);
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
