// Statistics work chunk by chunk, so that what one pass leaves for the next is still in the first-level cache; float16
// and bfloat16 are widened to float32 there, which is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cast_bf16.inl.h"
#include "kernels/cast_f16.inl.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

constexpr size_t kChunk = 2048;  // 8 KiB of float32, a quarter of the first-level cache

constexpr uint32_t kMagnitudeMask = 0x7fffffffu;
constexpr uint32_t kInfinityBits = 0x7f800000u;

// float32 bits of the smallest normal number of the tensor's type.
template <class T>
constexpr uint32_t kSmallestNormal = 0x00800000u;
template <>
constexpr uint32_t kSmallestNormal<f16> = 0x38800000u;

constexpr size_t kLineBytes = 64;

struct Chunk {
  alignas(kLineBytes) float values[kChunk];
};

inline const float* widened(const float* x, size_t, Chunk*) {
  return x;
}
inline const float* widened(const f16* x, size_t n, Chunk* chunk) {
  cast_f16_f32(x, chunk->values, n);
  return chunk->values;
}
inline const float* widened(const bf16* x, size_t n, Chunk* chunk) {
  cast_bf16_f32(x, chunk->values, n);
  return chunk->values;
}

// Calls body(values, n) for each chunk of x: at most n / kChunk + 2 of them. Where x begins within a cache line the
// first is shorter, so that the others begin with a line: vectors that straddle lines take up to 1.5 times as long.
template <class T, class Body>
inline void for_chunks(const T* x, size_t n, Body&& body) {
  Chunk chunk;
  const size_t within = reinterpret_cast<uintptr_t>(x) % kLineBytes / sizeof(T);
  for (size_t done = 0, next = kChunk - within; done < n; next = kChunk) {
    const size_t size = n - done < next ? n - done : next;
    body(widened(x + done, size, &chunk), size);
    done += size;
  }
}

}  // namespace
}  // namespace quarkfast::QF_ISA
