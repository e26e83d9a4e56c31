// The floats of 8, 6 and 4 bits as rows of traits (docs/numerics.md, "Small floats").
#pragma once

#include <cstdint>

namespace quarkfast {

// A format with sign, exponent and mantissa. Code (e, m) without its sign is 2^(max(e, 1) - bias) * (m /
// 2^mantissa_bits
// + (e ? 1 : 0)); codes above largest_code mean infinity or NaN.
struct SmallFloat {
  int32_t bits;
  int32_t mantissa_bits;
  int32_t bias;
  uint32_t largest_code;   // of the largest finite value, without sign
  uint32_t overflow_code;  // what larger values and infinity become where they do not saturate
  uint32_t nan_code;       // kNoNan: NaN becomes a zero of the other sign, as in ml_dtypes
  bool unsigned_zero;      // fnuz: the code of -0 is the one NaN
};

inline constexpr uint32_t kNoNan = 0xffu;

// Storage: a byte an element, the code in its low bits, with a type of its own for each format.
struct e4m3fn {
  static constexpr SmallFloat kFormat{8, 3, 7, 0x7e, 0x7f, 0x7f, false};
  uint8_t bits;
};
struct e5m2 {
  static constexpr SmallFloat kFormat{8, 2, 15, 0x7b, 0x7c, 0x7e, false};
  uint8_t bits;
};
struct e4m3fnuz {
  static constexpr SmallFloat kFormat{8, 3, 8, 0x7f, 0x80, 0x80, true};
  uint8_t bits;
};
struct e5m2fnuz {
  static constexpr SmallFloat kFormat{8, 2, 16, 0x7f, 0x80, 0x80, true};
  uint8_t bits;
};
struct e3m2fn {
  static constexpr SmallFloat kFormat{6, 2, 3, 0x1f, 0x1f, kNoNan, false};
  uint8_t bits;
};
struct e2m3fn {
  static constexpr SmallFloat kFormat{6, 3, 1, 0x1f, 0x1f, kNoNan, false};
  uint8_t bits;
};
struct e2m1fn {
  static constexpr SmallFloat kFormat{4, 1, 1, 0x07, 0x07, kNoNan, false};
  uint8_t bits;
};
// Scales: powers of two from 2^-127 (code 0) to 2^127, and NaN (255).
struct e8m0fnu {
  uint8_t bits;
};

}  // namespace quarkfast
