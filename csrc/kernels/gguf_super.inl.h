// The block types of GGUF files with scales in super-blocks of 256 values: Q4_K and Q6_K (docs/numerics.md, "GGUF
// blocks"). A search fits scale (and minimum) of each group of a super-block. The groups lie side by side: sums run
// down the values of a group in their order, and the lanes of a vector are the groups.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "kernels/gguf.inl.h"

namespace quarkfast::QF_ISA {
namespace {

// The whole number nearest to v, halves to even, for |v| below 2^22; 0 for what is not finite.
inline int32_t nearest_code(float v) {
  return static_cast<int32_t>(bit_copy<uint32_t>(v + 12582912.0f) & 0x007fffffu) - 0x00400000;
}

inline int32_t limited_code(int32_t code, int32_t low, int32_t high) {
  return smaller(larger(code, low), high);
}

// Whether all values are below 2^30. No scale of float16 reaches further, and sums of cubes could overflow.
inline bool all_moderate(const float* x) {
  constexpr uint32_t kLimit = 0x4e800000u;
  return largest_magnitude(x, kGgufSuperBlock) < kLimit;
}

// One number for each group, and values[l][j], value l of group j.
template <size_t kGroups>
using EachGroup = float[kGroups];
template <size_t kGroups>
using GroupColumns = float[kGgufSuperBlock / kGroups][kGroups];

template <size_t kGroups>
inline void to_columns(const float* x, GroupColumns<kGroups>& values) {
  constexpr size_t kLength = kGgufSuperBlock / kGroups;
  for (size_t l = 0; l < kLength; ++l) {
    for (size_t j = 0; j < kGroups; ++j) values[l][j] = x[j * kLength + l];
  }
}

// Eight groups of 32 codes from 0 to 15: code * scale - minimum. Scales and minima are 6-bit multiples of two float16.
struct GgufQ4K {
  static constexpr GgufSize kSize = kGgufQ4_K;
  static constexpr size_t kGroups = 8, kLength = 32;
  static constexpr int32_t kTop = 15, kScaleTop = 63, kSteps = 21;

  // What a group is rounded with: codes are those of (x - low) * inverse; they stand for code * scale + low_of_scale.
  struct Search {
    GroupColumns<kGroups> x, weight, code;
    EachGroup<kGroups> low, high, sum_w, sum_x, inverse, scale, error;
    // The rounding that gave the best scale, which is not that of the scale itself.
    EachGroup<kGroups> best_inverse, best_low;
  };

  static int32_t code_of(float x, float low, float inverse) {
    return limited_code(nearest_code(inverse * (x - low)), 0, kTop);
  }

  // Weights favour values that are large within their group.
  static void begin(const float* values, Search& s) {
    to_columns<kGroups>(values, s.x);
    for (size_t j = 0; j < kGroups; ++j) {
      float squares = 0.0f;
      for (size_t l = 0; l < kLength; ++l) squares += s.x[l][j] * s.x[l][j];
      s.error[j] = squares;
    }
    // Not std::sqrt: an inline function, which could be linked into all instruction sets.
    for (size_t j = 0; j < kGroups; ++j) s.error[j] = sqrtf(s.error[j] / static_cast<float>(kLength));
    for (size_t j = 0; j < kGroups; ++j) {
      float low = s.x[0][j], high = low, sum_w = 0.0f, sum_x = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float x = s.x[l][j], w = s.error[j] + bit_copy<float>(gguf_magnitude(x));
        s.weight[l][j] = w;
        low = x < low ? x : low;
        high = x > high ? x : high;
        sum_w += w;
        sum_x += w * x;
      }
      s.low[j] = low > 0.0f ? 0.0f : low;
      s.high[j] = high;
      s.sum_w[j] = sum_w;
      s.sum_x[j] = sum_x;
    }
  }

  // Rounding to the whole range, and its error.
  static void round_whole(Search& s) {
    for (size_t j = 0; j < kGroups; ++j) {
      const float inverse = static_cast<float>(kTop) / (s.high[j] - s.low[j]), low = s.low[j], scale = 1.0f / inverse;
      float error = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float d = scale * static_cast<float>(code_of(s.x[l][j], low, inverse)) + low - s.x[l][j];
        error += s.weight[l][j] * (d * d);
      }
      s.best_inverse[j] = inverse;
      s.best_low[j] = low;
      s.scale[j] = scale;
      s.error[j] = error;
    }
  }

  // Rounds to a range that is up to a code's width narrower or wider, fits scale and minimum to the codes by least
  // squares, and keeps them where that is better. The range of later steps begins at the minimum kept.
  static void step(Search& s, int32_t number) {
    EachGroup<kGroups> sum_l, sum_l2, sum_xl;
    const float width = -1.0f + 0.1f * static_cast<float>(number) + static_cast<float>(kTop);
    for (size_t j = 0; j < kGroups; ++j) s.inverse[j] = width / (s.high[j] - s.low[j]);
    for (size_t l = 0; l < kLength; ++l) {
      for (size_t j = 0; j < kGroups; ++j) {
        s.code[l][j] = static_cast<float>(code_of(s.x[l][j], s.low[j], s.inverse[j]));
      }
    }
    for (size_t j = 0; j < kGroups; ++j) {
      float l1 = 0.0f, l2 = 0.0f, xl = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float code = s.code[l][j], wc = s.weight[l][j] * code;
        l1 += wc;
        l2 += wc * code;
        xl += wc * s.x[l][j];
      }
      sum_l[j] = l1;
      sum_l2[j] = l2;
      sum_xl[j] = xl;
    }
    EachGroup<kGroups> scales, lows, determinants, errors;
#pragma GCC unroll 1  // GCC 12 unrolls it before it would vectorize it
    for (size_t j = 0; j < kGroups; ++j) {
      const float d = s.sum_w[j] * sum_l2[j] - sum_l[j] * sum_l[j];
      const float low = (sum_l2[j] * s.sum_x[j] - sum_l[j] * sum_xl[j]) / d;
      const float both = (s.sum_w[j] * sum_xl[j] - s.sum_x[j] * sum_l[j]) / d, alone = sum_xl[j] / sum_l2[j];
      const bool above = low > 0.0f;
      determinants[j] = d;
      scales[j] = above ? alone : both;
      lows[j] = above ? 0.0f : low;
    }
    for (size_t j = 0; j < kGroups; ++j) {
      const float scale = scales[j], low = lows[j];
      float error = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float d = scale * s.code[l][j] + low - s.x[l][j];
        error += s.weight[l][j] * (d * d);
      }
      errors[j] = error;
    }
    for (size_t j = 0; j < kGroups; ++j) {
      const bool better = (determinants[j] > 0.0f) & (errors[j] < s.error[j]);
      s.best_inverse[j] = better ? s.inverse[j] : s.best_inverse[j];
      s.best_low[j] = better ? s.low[j] : s.best_low[j];
      s.error[j] = better ? errors[j] : s.error[j];
      s.scale[j] = better ? scales[j] : s.scale[j];
      s.low[j] = better ? lows[j] : s.low[j];
    }
  }

  // Bytes 0 to 3 and 4 to 7 hold the 6 bits of scales and minima of the first four groups, and above them the upper two
  // bits of the other four, whose lower four bits lie in bytes 8 to 11.
  static void store_scales(const uint8_t* scales, const uint8_t* minima, uint8_t* to) {
    for (size_t j = 0; j < 4; ++j) {
      to[j] = static_cast<uint8_t>(scales[j] | (scales[j + 4] >> 4 << 6));
      to[j + 4] = static_cast<uint8_t>(minima[j] | (minima[j + 4] >> 4 << 6));
      to[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4));
    }
  }

  static void load_scales(const uint8_t* from, uint8_t* scales, uint8_t* minima) {
    for (size_t j = 0; j < 4; ++j) {
      scales[j] = from[j] & 63;
      minima[j] = from[j + 4] & 63;
      scales[j + 4] = static_cast<uint8_t>((from[j + 8] & 15) | (from[j] >> 6 << 4));
      minima[j + 4] = static_cast<uint8_t>((from[j + 8] >> 4) | (from[j + 4] >> 6 << 4));
    }
  }

  // The 6-bit multiples of a float16 that stand for eight numbers of which the largest is `largest`.
  static void multiples(const float* numbers, float largest, uint8_t* to) {
    const float inverse = largest > 0.0f ? static_cast<float>(kScaleTop) / largest : 0.0f;
    for (size_t j = 0; j < kGroups; ++j) {
      const auto low_bits = static_cast<uint8_t>(nearest_code(inverse * numbers[j]));
      to[j] = smaller(low_bits, static_cast<uint8_t>(kScaleTop));
    }
  }

  static void quantize(const float* x, uint8_t* record) {
    if (!all_moderate(x)) {
      std::memset(record, 0, kSize.bytes);
      store_f16(kGgufNan, record);
      return;
    }
    Search s;
    begin(x, s);
    EachGroup<kGroups> flat, minima;
    for (size_t j = 0; j < kGroups; ++j) flat[j] = s.high[j] == s.low[j] ? 1.0f : 0.0f;
    round_whole(s);
    for (int32_t number = 0; number < kSteps; ++number) step(s, number);
    float largest_scale = 0.0f, largest_minimum = 0.0f;
    for (size_t j = 0; j < kGroups; ++j) {
      s.scale[j] = flat[j] != 0.0f ? 0.0f : s.scale[j];
      minima[j] = -s.low[j];
      largest_scale = larger(s.scale[j], largest_scale);
      largest_minimum = larger(minima[j], largest_minimum);
    }
    uint8_t scale_codes[kGroups], minimum_codes[kGroups], codes[kGgufSuperBlock];
    multiples(s.scale, largest_scale, scale_codes);
    multiples(minima, largest_minimum, minimum_codes);
    const uint16_t d = f16_bits(largest_scale / static_cast<float>(kScaleTop));
    const uint16_t m = f16_bits(largest_minimum / static_cast<float>(kScaleTop));
    for (size_t j = 0; j < kGroups; ++j) {
      const float scale = f16_value(d) * static_cast<float>(scale_codes[j]);
      const float minimum = f16_value(m) * static_cast<float>(minimum_codes[j]);
      const float* const values = x + j * kLength;
      // Without a scale the codes are those of the search, which nothing reads.
      const bool kept = scale == 0.0f, none = flat[j] != 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float quotient = kept ? s.best_inverse[j] * (values[l] - s.best_low[j]) : (values[l] + minimum) / scale;
        const int32_t code = limited_code(nearest_code(quotient), 0, kTop);
        codes[j * kLength + l] = static_cast<uint8_t>(kept && none ? 0 : code);
      }
    }
    store_f16(d, record);
    store_f16(m, record + 2);
    store_scales(scale_codes, minimum_codes, record + 4);
    for (size_t j = 0; j < kGroups; j += 2) {
      for (size_t l = 0; l < kLength; ++l) {
        const uint8_t* const at = codes + j * kLength + l;
        record[16 + j / 2 * kLength + l] = static_cast<uint8_t>(at[0] | (at[kLength] << 4));
      }
    }
  }

  static void dequantize(const uint8_t* record, float* y) {
    float d = load_f16(record), m = load_f16(record + 2);
    if (m != m) d = m;  // of two NaN each instruction set would keep the one that it likes
    if (d != d) m = d;
    uint8_t scales[kGroups], minima[kGroups];
    load_scales(record + 4, scales, minima);
    for (size_t j = 0; j < kGroups; ++j) {
      const float scale = d * static_cast<float>(scales[j]), minimum = m * static_cast<float>(minima[j]);
      const uint8_t* const pairs = record + 16 + j / 2 * kLength;
      const int32_t shift = j % 2 ? 4 : 0;
      for (size_t l = 0; l < kLength; ++l) {
        y[j * kLength + l] = scale * static_cast<float>((pairs[l] >> shift) & 15) - minimum;
      }
    }
  }
};

// Sixteen groups of 16 codes from -32 to 31: code * scale. Scales are 8-bit multiples of a float16.
struct GgufQ6K {
  static constexpr GgufSize kSize = kGgufQ6_K;
  static constexpr size_t kGroups = 16, kLength = 16, kHalf = 128, kQuarter = 32;
  static constexpr int32_t kTop = 32;
  static constexpr float kNothing = 1e-15f;  // groups without a larger magnitude have scale 0

  struct Search {
    GroupColumns<kGroups> x;
    EachGroup<kGroups> peak, scale, best, inverse;
  };

  static int32_t code_of(float v) { return limited_code(nearest_code(v), -kTop, kTop - 1); }

  // Rounds to a range that ends at the value of the largest magnitude, or up to nine tenths of a code off it, fits the
  // scale to the codes by least squares, weighted by the squares of the values, and keeps what explains most of them.
  static void step(Search& s, int32_t number) {
    const float width = -(static_cast<float>(kTop) + 0.1f * static_cast<float>(number));
    for (size_t j = 0; j < kGroups; ++j) {
      const float inverse = width / s.peak[j];
      float xl = 0.0f, l2 = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float x = s.x[l][j], w = x * x, code = static_cast<float>(code_of(inverse * x));
        xl += w * x * code;
        l2 += w * code * code;
      }
      const bool better = number == 0 || (l2 > 0.0f && xl * xl > s.best[j] * l2);
      const float scale = l2 > 0.0f || l2 != l2 ? xl / l2 : 0.0f;
      s.inverse[j] = better ? inverse : s.inverse[j];
      s.best[j] = better ? scale * xl : s.best[j];
      s.scale[j] = better ? scale : s.scale[j];
    }
  }

  static void search(const float* x, Search& s) {
    to_columns<kGroups>(x, s.x);
    for (size_t j = 0; j < kGroups; ++j) {
      float peak = 0.0f, top = 0.0f;
      for (size_t l = 0; l < kLength; ++l) {
        const float v = s.x[l][j], a = bit_copy<float>(gguf_magnitude(v));
        peak = a > top ? v : peak;
        top = a > top ? a : top;
      }
      s.peak[j] = peak;
    }
    step(s, 0);
    for (int32_t number = -9; number <= 9; ++number) {
      if (number) step(s, number);
    }
    for (size_t j = 0; j < kGroups; ++j) {
      const bool nothing = bit_copy<float>(gguf_magnitude(s.peak[j])) < kNothing;
      s.scale[j] = nothing ? 0.0f : s.scale[j];
      s.inverse[j] = nothing ? 0.0f : s.inverse[j];
    }
  }

  static void quantize(const float* x, uint8_t* record) {
    std::memset(record, 0, kSize.bytes);
    if (!all_moderate(x)) return store_f16(kGgufNan, record + kSize.bytes - 2);
    Search s;
    search(x, s);
    float largest = 0.0f, top = 0.0f;
    for (size_t j = 0; j < kGroups; ++j) {
      const float a = bit_copy<float>(gguf_magnitude(s.scale[j]));
      largest = a > top ? s.scale[j] : largest;
      top = a > top ? a : top;
    }
    if (top < kNothing) return;
    const float inverse = -128.0f / largest;
    const uint16_t d = f16_bits(1.0f / inverse);
    auto* const scales = record + kHalf + kGgufSuperBlock / 4;
    uint8_t codes[kGgufSuperBlock];
    for (size_t j = 0; j < kGroups; ++j) {
      const int32_t multiple = smaller(nearest_code(inverse * s.scale[j]), 127);
      scales[j] = static_cast<uint8_t>(multiple);
      const float scale = f16_value(d) * static_cast<float>(static_cast<int8_t>(scales[j]));
      const bool kept = scale == 0.0f, none = bit_copy<float>(gguf_magnitude(s.peak[j])) < kNothing;
      for (size_t l = 0; l < kLength; ++l) {
        const float v = x[j * kLength + l];
        const int32_t code = code_of(kept ? s.inverse[j] * v : v / scale) + kTop;
        codes[j * kLength + l] = static_cast<uint8_t>(kept && none ? 0 : code);
      }
    }
    store_f16(d, record + kSize.bytes - 2);
    store_codes(codes, record);
  }

  // The low four bits of the codes of each half, then their upper two bits, quarter over quarter.
  static void store_codes(const uint8_t* codes, uint8_t* to) {
    for (size_t half = 0; half < 2; ++half) {
      const uint8_t* const c = codes + half * kHalf;
      uint8_t *const low = to + half * kHalf / 2, *const high = to + kHalf + half * kQuarter;
      for (size_t l = 0; l < 2 * kQuarter; ++l) {
        low[l] = static_cast<uint8_t>((c[l] & 15) | ((c[l + 2 * kQuarter] & 15) << 4));
      }
      for (size_t l = 0; l < kQuarter; ++l) {
        high[l] = static_cast<uint8_t>((c[l] >> 4) | (c[l + kQuarter] >> 4 << 2) | (c[l + 2 * kQuarter] >> 4 << 4) |
                                       (c[l + 3 * kQuarter] >> 4 << 6));
      }
    }
  }

  static void dequantize(const uint8_t* record, float* y) {
    const float d = load_f16(record + kSize.bytes - 2);
    const uint8_t* const scales = record + kHalf + kGgufSuperBlock / 4;
    float scale[kGroups];
    for (size_t j = 0; j < kGroups; ++j) scale[j] = d * static_cast<float>(static_cast<int8_t>(scales[j]));
    for (size_t at = 0; at < kGgufSuperBlock; at += kQuarter) {
      const size_t half = at / kHalf, quarter = at % kHalf / kQuarter;
      const uint8_t* const low = record + half * kHalf / 2 + quarter % 2 * kQuarter;
      const uint8_t* const high = record + kHalf + half * kQuarter;
      const int32_t low_shift = quarter < 2 ? 0 : 4, high_shift = static_cast<int32_t>(2 * quarter);
      float codes[kQuarter];
      for (size_t l = 0; l < kQuarter; ++l) {
        codes[l] = static_cast<float>((((low[l] >> low_shift) & 15) | (((high[l] >> high_shift) & 3) << 4)) - kTop);
      }
      for (size_t l = 0; l < kLength; ++l) y[at + l] = scale[at / kLength] * codes[l];
      for (size_t l = kLength; l < kQuarter; ++l) y[at + l] = scale[at / kLength + 1] * codes[l];
    }
  }
};

}  // namespace
}  // namespace quarkfast::QF_ISA
