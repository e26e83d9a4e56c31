// The block types of GGUF files with one scale for 32 values: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 (docs/numerics.md, "GGUF
// blocks"). Loops of 32 steps, which the compiler unrolls into vectors; only the scale is scalar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "kernels/f16_bits.inl.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr uint32_t kGgufMagnitude = 0x7fffffffu;
constexpr uint32_t kGgufInfinity = 0x7f800000u;
constexpr uint16_t kGgufNan = 0x7e00u;  // the float16 scale of a block that holds an infinity or NaN

inline uint32_t gguf_magnitude(float x) {
  return bit_copy<uint32_t>(x) & kGgufMagnitude;
}

// The bits of the largest magnitude; not below those of infinity where a value is not finite.
inline uint32_t largest_magnitude(const float* x, size_t n) {
  uint32_t top = 0;
  for (size_t j = 0; j < n; ++j) top = larger(top, gguf_magnitude(x[j]));
  return top;
}

// The first value that has this magnitude.
inline float first_of_magnitude(const float* x, uint32_t top) {
  uint32_t first = kGgufBlock;
  for (uint32_t j = 0; j < kGgufBlock; ++j) {
    first = smaller(first, gguf_magnitude(x[j]) == top ? j : static_cast<uint32_t>(kGgufBlock));
  }
  return x[first];
}

struct BlockExtremes {
  float low, high;
};

// Of finite values. Of zeros of both signs either may be told.
inline BlockExtremes extremes_of_block(const float* x) {
  constexpr size_t kLanes = 8;
  float low[kLanes], high[kLanes];
  for (size_t j = 0; j < kLanes; ++j) low[j] = high[j] = x[j];
  for (size_t i = kLanes; i < kGgufBlock; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      low[j] = smaller(low[j], x[i + j]);
      high[j] = larger(high[j], x[i + j]);
    }
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) {
      low[j] = smaller(low[j], low[j + width]);
      high[j] = larger(high[j], high[j + width]);
    }
  }
  return {low[0], high[0]};
}

// 1 / d, and 0 where that is not finite: d is then below what a float16 holds.
inline float inverse_or_zero(float d) {
  const float inverse = 1.0f / d;
  return gguf_magnitude(inverse) < kGgufInfinity ? inverse : 0.0f;
}

inline void store_f16(uint16_t bits, uint8_t* to) {
  std::memcpy(to, &bits, sizeof(bits));
}

inline float load_f16(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return f16_value(bits);
}

// Codes of 4 or 5 bits. Without a minimum, code c stands for (c - 2^(bits - 1)) * d, and d has the sign that gives the
// value of the largest magnitude the code 0; with one, for c * d + m.
template <int32_t kBits, bool kHasMinimum>
struct GgufNibbles {
  static constexpr GgufSize kSize = gguf_nibbles(kBits, kHasMinimum);
  static constexpr int32_t kTop = (1 << kBits) - 1, kHalf = 1 << (kBits - 1);
  static constexpr size_t kPairs = kGgufBlock / 2;

  static void quantize(const float* x, uint8_t* record) {
    if (largest_magnitude(x, kGgufBlock) >= kGgufInfinity) {
      std::memset(record, 0, kSize.bytes);
      store_f16(kGgufNan, record);
      return;
    }
    float d, offset = 0.0f, minimum = 0.0f;
    if constexpr (kHasMinimum) {
      const BlockExtremes found = extremes_of_block(x);
      minimum = found.low + 0.0f;  // +0 whatever the signs of the zeros
      d = (found.high - found.low) / static_cast<float>(kTop);
      offset = 0.5f;
    } else {
      d = first_of_magnitude(x, largest_magnitude(x, kGgufBlock)) / static_cast<float>(-kHalf);
      offset = static_cast<float>(kHalf) + 0.5f;
    }
    const float inverse = inverse_or_zero(d);
    int32_t codes[kGgufBlock];
    for (size_t j = 0; j < kGgufBlock; ++j) {
      float v = (kHasMinimum ? x[j] - minimum : x[j]) * inverse + offset;
      v = v > 0.0f ? v : 0.0f;
      v = v < static_cast<float>(kTop) ? v : static_cast<float>(kTop);
      codes[j] = static_cast<int32_t>(v);
    }
    store_f16(f16_bits(d), record);
    record += 2;
    if constexpr (kHasMinimum) {
      store_f16(f16_bits(minimum), record);
      record += 2;
    }
    store_codes(codes, record);
  }

  static void store_codes(const int32_t* codes, uint8_t* to) {
    if constexpr (kBits == 5) {
      uint32_t fifth = 0;
      for (uint32_t j = 0; j < kGgufBlock; ++j) fifth |= (static_cast<uint32_t>(codes[j]) >> 4) << j;
      std::memcpy(to, &fifth, sizeof(fifth));
      to += sizeof(fifth);
    }
#pragma GCC unroll 1  // GCC 12 unrolls it before it would vectorize it
    for (size_t j = 0; j < kPairs; ++j) {
      to[j] = static_cast<uint8_t>((codes[j] & 15) | ((codes[j + kPairs] & 15) << 4));
    }
  }

  static void dequantize(const uint8_t* record, float* y) {
    float d = load_f16(record), m = kHasMinimum ? load_f16(record + 2) : 0.0f;
    // Of two NaN each instruction set would keep the one that it likes.
    if (m != m) d = m;
    if (d != d) m = d;
    record += kHasMinimum ? 4 : 2;
    uint32_t fifth = 0;
    if constexpr (kBits == 5) {
      std::memcpy(&fifth, record, sizeof(fifth));
      record += sizeof(fifth);
    }
    int32_t codes[kGgufBlock];
    for (size_t j = 0; j < kPairs; ++j) {
      codes[j] = record[j] & 15;
      codes[j + kPairs] = record[j] >> 4;
    }
    for (uint32_t j = 0; j < kGgufBlock; ++j) {
      const int32_t code = codes[j] | (kBits == 5 ? static_cast<int32_t>((fifth >> j) & 1u) << 4 : 0);
      y[j] = kHasMinimum ? d * static_cast<float>(code) + m : d * static_cast<float>(code - kHalf);
    }
  }
};

// Codes of 8 bits, rounded half away from zero.
struct GgufBytes {
  static constexpr GgufSize kSize = kGgufQ8_0;

  static void quantize(const float* x, uint8_t* record) {
    const uint32_t top = largest_magnitude(x, kGgufBlock);
    if (top >= kGgufInfinity) {
      std::memset(record, 0, kSize.bytes);
      store_f16(kGgufNan, record);
      return;
    }
    const float d = bit_copy<float>(top) / 127.0f, inverse = inverse_or_zero(d);
    int32_t codes[kGgufBlock];
    for (size_t j = 0; j < kGgufBlock; ++j) {
      const float v = x[j] * inverse;
      const int32_t toward_zero = static_cast<int32_t>(v);
      codes[j] = toward_zero + static_cast<int32_t>((v - static_cast<float>(toward_zero)) * 2.0f);  // both exact
    }
    store_f16(f16_bits(d), record);
    for (size_t j = 0; j < kGgufBlock; ++j) record[2 + j] = static_cast<uint8_t>(codes[j]);
  }

  static void dequantize(const uint8_t* record, float* y) {
    const float d = load_f16(record);
    for (size_t j = 0; j < kGgufBlock; ++j) y[j] = static_cast<float>(static_cast<int8_t>(record[2 + j])) * d;
  }
};

template <class Type>
void quantize_gguf(const float* x, uint8_t* records, size_t blocks) {
  for (size_t i = 0; i < blocks; ++i) Type::quantize(x + i * Type::kSize.values, records + i * Type::kSize.bytes);
}

template <class Type>
void dequantize_gguf(const uint8_t* records, float* y, size_t blocks) {
  for (size_t i = 0; i < blocks; ++i) Type::dequantize(records + i * Type::kSize.bytes, y + i * Type::kSize.values);
}

template <class Type>
constexpr GgufKernels gguf_kernels() {
  return {Type::kSize, quantize_gguf<Type>, dequantize_gguf<Type>};
}

}  // namespace
}  // namespace quarkfast::QF_ISA
