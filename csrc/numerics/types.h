// Storage types that C++ lacks: the 16-bit floats as bit patterns with a type of their own, so that no overload takes
// one for the other, and the integers below eight bits, one to a byte as ml_dtypes keeps them in NumPy arrays.
#pragma once

#include <cstdint>
#include <limits>

namespace quarkfast {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

// The low kWidth bits of the byte are the code in two's complement; the others are written as zero and ignored when
// read.
template <int kWidth, bool kSigned>
struct SubByte {
  static constexpr int32_t kMask = (1 << kWidth) - 1;
  static constexpr int32_t kSignBit = kSigned ? 1 << (kWidth - 1) : 0;
  uint8_t bits;
};
using i2 = SubByte<2, true>;
using u2 = SubByte<2, false>;
using i4 = SubByte<4, true>;
using u4 = SubByte<4, false>;

// Lowest and highest code of an integer type.
template <class Q>
struct CodeLimits {
  static constexpr int64_t kMin = static_cast<int64_t>(std::numeric_limits<Q>::min());
  static constexpr int64_t kMax = static_cast<int64_t>(std::numeric_limits<Q>::max());
};
template <int kWidth, bool kSigned>
struct CodeLimits<SubByte<kWidth, kSigned>> {
  static constexpr int64_t kMin = -SubByte<kWidth, kSigned>::kSignBit;
  static constexpr int64_t kMax = kMin + SubByte<kWidth, kSigned>::kMask;
};

// The element that holds a code, and back. Static, hence one copy in every object: a shared one, compiled for a high
// instruction set, could be linked into all of them.
template <class Q, class Integer>
static constexpr Q element_of(Integer code) {
  if constexpr (requires { Q::kMask; }) {
    return Q{static_cast<uint8_t>(code & Q::kMask)};
  } else {
    return static_cast<Q>(code);
  }
}
template <class Q>
static constexpr auto code_of(Q element) {
  if constexpr (requires { Q::kMask; }) {
    return ((element.bits & Q::kMask) ^ Q::kSignBit) - Q::kSignBit;
  } else {
    return element;
  }
}

}  // namespace quarkfast
