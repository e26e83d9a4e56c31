// Packing of 2-, 3- and 4-bit codes: eight bytes of codes, seen as one 64-bit word, fold in three steps into as many
// bytes as a code has bits, and unfold the same way back (docs/numerics.md, "Packed codes").
//
// The words are read and written by memcpy in the processor's order, which is little-endian on every each. Expected of
// the vectorizer: packed shifts and masks; the three-byte stores of 3-bit codes stay scalar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.h"

namespace quarkfast::QF_ISA {
namespace {

// A word with the low `bits` of every field of `width` bits set.
constexpr uint64_t field_mask(int width, int bits) {
  uint64_t mask = 0;
  for (int at = 0; at < 64; at += width) mask |= ((uint64_t{1} << bits) - 1) << at;
  return mask;
}

// Eight codes, one in the low bits of each byte, become 8 * b bits at the bottom of the word.
template <int b>
inline uint64_t fold(uint64_t w) {
  w &= field_mask(8, b);
  w = (w | (w >> (8 - b))) & field_mask(16, 2 * b);
  w = (w | (w >> (16 - 2 * b))) & field_mask(32, 4 * b);
  return w | (w >> (32 - 4 * b));
}

template <int b>
inline uint64_t unfold(uint64_t w) {
  w = (w | (w << (32 - 4 * b))) & field_mask(32, 4 * b);
  w = (w | (w << (16 - 2 * b))) & field_mask(16, 2 * b);
  return (w | (w << (8 - b))) & field_mask(8, b);
}

// In each byte, the b-bit code v becomes v - 2^b where its sign bit is set: flip that bit, then subtract it. The top
// bit of the byte is lent during the subtraction, so that no byte borrows from the next.
template <int b>
inline uint64_t sign_extended(uint64_t w) {
  constexpr uint64_t kTop = field_mask(8, 1) << 7, kSign = field_mask(8, 1) << (b - 1);
  return (((w ^ kSign) | kTop) - kSign) ^ kTop;
}

// Bits that packing would lose: those above the code, or for signed codes those that differ from the bit below.
template <int b, class Code>
inline uint64_t lost_bits(uint64_t w) {
  constexpr uint64_t kAbove = field_mask(8, 8 - b) << b;
  return (static_cast<Code>(-1) < 0 ? w ^ (w << 1) : w) & kAbove;
}

template <int b, class Code>
bool pack_codes(const Code* __restrict x, uint8_t* __restrict y, size_t n) {
  uint64_t lost = 0;
  const size_t words = n / 8, rest = n % 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t w;
    std::memcpy(&w, x + 8 * i, 8);
    lost |= lost_bits<b, Code>(w);
    w = fold<b>(w);
    std::memcpy(y + b * i, &w, b);
  }
  uint64_t w = 0;
  std::memcpy(&w, x + 8 * words, rest);
  lost |= lost_bits<b, Code>(w);
  w = fold<b>(w);
  std::memcpy(y + b * words, &w, (rest * b + 7) / 8);
  return lost == 0;
}

// Three bytes are read one by one: gathered by memcpy they would wait for their own stores (8 times slower).
template <int b>
inline uint64_t packed_word(const uint8_t* x) {
  if constexpr (b == 3) return x[0] | x[1] << 8 | x[2] << 16;
  uint64_t w = 0;
  std::memcpy(&w, x, b);
  return w;
}

template <int b, class Code>
void unpack_codes(const uint8_t* __restrict x, Code* __restrict y, size_t n) {
  const auto unpacked = [](uint64_t w) {
    w = unfold<b>(w);
    return static_cast<Code>(-1) < 0 ? sign_extended<b>(w) : w;
  };
  const size_t words = n / 8, rest = n % 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t w = unpacked(packed_word<b>(x + b * i));
    std::memcpy(y + 8 * i, &w, 8);
  }
  uint64_t w = 0;
  std::memcpy(&w, x + b * words, (rest * b + 7) / 8);
  w = unpacked(w);
  std::memcpy(y + 8 * words, &w, rest);
}

template <int b>
constexpr PackKernels pack_kernels() {
  return {pack_codes<b, int8_t>, pack_codes<b, uint8_t>, unpack_codes<b, int8_t>, unpack_codes<b, uint8_t>};
}

}  // namespace
}  // namespace quarkfast::QF_ISA
