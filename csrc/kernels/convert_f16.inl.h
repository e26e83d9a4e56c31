// The processor's own conversions between float32 and float16, a vector at a time: kF16Lanes values, unaligned.
//
// The exception to plain loops: GCC 12 converts _Float16 one value at a time, and the integer code of cast_f16.inl.h
// takes 2.5 to 7 times as long as these instructions in cache (docs/benchmarks.md, "In cache"). They follow the same
// law: round half to even whatever the mode, subnormals kept, NaN quiet with sign and upper payload. Instruction sets
// without them have one lane, plain code that the compiler vectorizes.
#pragma once

#if defined(__AVX512F__) || defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/f16_bits.inl.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

#if defined(__AVX512F__)

constexpr size_t kF16Lanes = 16;
constexpr __mmask16 kAll = 0xffff;  // with a mask, because without one GCC 12 warns of what its own header leaves unset

inline __m256i narrowed(const float* x) {
  return _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline void narrow_lanes(const float* x, f16* y) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), narrowed(x));
}

inline void widen_lanes(const f16* x, float* y) {
  _mm512_storeu_ps(y, _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
}

inline void round_lanes(const float* x, float* y) {
  _mm512_storeu_ps(y, _mm512_maskz_cvtph_ps(kAll, narrowed(x)));
}

#elif defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))

constexpr size_t kF16Lanes = 8;

inline __m128i narrowed(const float* x) {
  return _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
}

inline void narrow_lanes(const float* x, f16* y) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), narrowed(x));
}

inline void widen_lanes(const f16* x, float* y) {
  _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}

inline void round_lanes(const float* x, float* y) {
  _mm256_storeu_ps(y, _mm256_cvtph_ps(narrowed(x)));
}

#else

constexpr size_t kF16Lanes = 1;

inline void narrow_lanes(const float* x, f16* y) {
  y->bits = f16_bits(*x);
}

inline void widen_lanes(const f16* x, float* y) {
  *y = f16_value(x->bits);
}

inline void round_lanes(const float* x, float* y) {
  *y = f16_value(f16_bits(*x));
}

#endif

}  // namespace
}  // namespace quarkfast::QF_ISA
