// Reading and writing the bits of a number; memcpy is the spelling that every compiler turns into a register move.
#pragma once

#include <cstdint>
#include <cstring>

namespace quarkfast::QF_ISA {
namespace {

template <class To, class From>
inline To bit_copy(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

}  // namespace
}  // namespace quarkfast::QF_ISA
