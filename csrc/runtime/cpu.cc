#include "runtime/cpu.h"

#include <cstdint>

// Not _M_X64: mingw's headers define it too, and have neither function for every instruction set.
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(_M_X64)
#include <intrin.h>
#endif

namespace quarkfast::cpu {

#if defined(__x86_64__) || defined(_M_X64)

namespace {

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{};
#if defined(__x86_64__)
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
#else
  int out[4];
  __cpuidex(out, static_cast<int>(leaf), static_cast<int>(subleaf));
  r = {static_cast<uint32_t>(out[0]), static_cast<uint32_t>(out[1]), static_cast<uint32_t>(out[2]),
       static_cast<uint32_t>(out[3])};
#endif
  return r;
}

// Which register states the operating system saves on a context switch (XCR0); without them AVX faults.
uint64_t saved_states() {
  constexpr uint32_t kOsxsave = 1u << 27;
  if (!(cpuid(1, 0).ecx & kOsxsave)) return 0;
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
#else
  return _xgetbv(0);
#endif
}

bool has(uint32_t value, uint32_t mask) {
  return (value & mask) == mask;
}

constexpr uint32_t bit(int i) {
  return 1u << i;
}

}  // namespace

// Levels as the x86-64 psABI defines them (section 3.1.1, micro-architecture levels).
bool supports_x86_64_v2() {
  constexpr uint32_t kSse3 = bit(0), kSsse3 = bit(9), kCx16 = bit(13), kSse41 = bit(19), kSse42 = bit(20),
                     kPopcnt = bit(23);
  return has(cpuid(1, 0).ecx, kSse3 | kSsse3 | kCx16 | kSse41 | kSse42 | kPopcnt);
}

bool supports_x86_64_v3() {
  constexpr uint32_t kFma = bit(12), kMovbe = bit(22), kAvx = bit(28), kF16c = bit(29);
  constexpr uint32_t kBmi1 = bit(3), kAvx2 = bit(5), kBmi2 = bit(8), kLzcnt = bit(5);
  constexpr uint64_t kSseAndAvxState = 0x6;
  return supports_x86_64_v2() && (saved_states() & kSseAndAvxState) == kSseAndAvxState &&
         has(cpuid(1, 0).ecx, kFma | kMovbe | kAvx | kF16c) && has(cpuid(7, 0).ebx, kBmi1 | kAvx2 | kBmi2) &&
         has(cpuid(0x80000001u, 0).ecx, kLzcnt);
}

bool supports_x86_64_v4() {
  constexpr uint32_t kF = bit(16), kDq = bit(17), kCd = bit(28), kBw = bit(30), kVl = bit(31);
  constexpr uint64_t kAvx512State = 0xe6;
  return supports_x86_64_v3() && (saved_states() & kAvx512State) == kAvx512State &&
         has(cpuid(7, 0).ebx, kF | kDq | kCd | kBw | kVl);
}

bool supports_arm64() {
  return false;
}

#else

bool supports_x86_64_v2() {
  return false;
}
bool supports_x86_64_v3() {
  return false;
}
bool supports_x86_64_v4() {
  return false;
}
bool supports_arm64() {
  return true;
}  // NEON is part of the base architecture

#endif

}  // namespace quarkfast::cpu
