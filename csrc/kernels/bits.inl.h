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

// Brings the cache line of an address near, which need not be one of ours.
inline void prefetch([[maybe_unused]] const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#endif
}

template <class T>
inline T larger(T a, T b) {
  return a > b ? a : b;
}

template <class T>
inline T smaller(T a, T b) {
  return a < b ? a : b;
}

}  // namespace
}  // namespace quarkfast::QF_ISA
