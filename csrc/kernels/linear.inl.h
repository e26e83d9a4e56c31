// Integer quantization: q = saturate(rne(x / s) + z), x' = float(q - z) * s (docs/numerics.md, "Integers").
//
// The quotient is clamped to [qmin - z, qmax - z] before it is rounded: the bounds are integers, so the result is the
// same as rounding first, and the clamped value is small enough for the addition trick. The comparison is written so
// that NaN fails it and lands on the lower bound, as onnxruntime does. Types up to 16 bits work in float32 (all bounds
// are below 2^18, exact); 32-bit types work in float64 (bounds below 2^33, exact). Expected of the vectorizer: packed
// division, min, max, add, narrowing store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "kernels/bits.inl.h"
#include "numerics/rounding.h"
#include "numerics/types.h"

namespace quarkfast::QF_ISA {
namespace {

// Arithmetic of types up to 16 bits: float32 throughout.
struct Narrow {
  using Real = float;
  static float rounded(float v) { return (v + kRoundF32) - kRoundF32; }
  template <class Q>
  static Q code(float v, float zero_point) {
    // The sum's low bits are the integer: v + z stays within 2^17, far below the 2^22 that the trick allows.
    const float sum = (v + kRoundF32) + zero_point;
    return element_of<Q>(bit_copy<int32_t>(sum));
  }
  template <class Q>
  static float difference(Q q, float zero_point) {
    return static_cast<float>(static_cast<int32_t>(code_of(q))) - zero_point;
  }
};

// Arithmetic of 32-bit types: float64 between the two float32 roundings.
struct Wide {
  using Real = double;
  static double rounded(double v) { return (v + kRoundF64) - kRoundF64; }
  template <class Q>
  static Q code(double v, double zero_point) {
    const double sum = (v + kRoundF64) + zero_point;
    return element_of<Q>(bit_copy<int64_t>(sum));
  }
  template <class Q>
  static double difference(Q q, double zero_point) {
    return static_cast<double>(code_of(q)) - zero_point;
  }
};

template <class Q>
struct ArithmeticOf {
  using type = Narrow;
};
template <>
struct ArithmeticOf<int32_t> {
  using type = Wide;
};
template <>
struct ArithmeticOf<uint32_t> {
  using type = Wide;
};

template <class Real>
inline Real clamped(Real v, Real low, Real high) {
  v = v > low ? v : low;  // NaN fails the comparison and becomes low
  return v < high ? v : high;
}

template <class Q>
void quantize_linear(const float* __restrict x, Q* __restrict y, size_t runs, size_t n, const float* __restrict scale,
                     const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  for (size_t r = 0; r < runs; ++r, x += n, y += n) {
    const float s = scale[r];
    const Real z = A::difference(zero_point[r], Real{0});
    const Real low = static_cast<Real>(qmin) - z, high = static_cast<Real>(qmax) - z;
    for (size_t i = 0; i < n; ++i) {
      y[i] = A::template code<Q>(clamped(static_cast<Real>(x[i] / s), low, high), z);
    }
  }
}

template <class Q>
void quantize_linear_channels(const float* __restrict x, Q* __restrict y, size_t n, const float* __restrict scale,
                              const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  const Real low = static_cast<Real>(qmin), high = static_cast<Real>(qmax);
  for (size_t i = 0; i < n; ++i) {
    const Real z = A::difference(zero_point[i], Real{0});
    y[i] = A::template code<Q>(clamped(static_cast<Real>(x[i] / scale[i]), low - z, high - z), z);
  }
}

template <class Q>
void dequantize_linear(const Q* __restrict x, float* __restrict y, size_t runs, size_t n, const float* __restrict scale,
                       const Q* __restrict zero_point) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  for (size_t r = 0; r < runs; ++r, x += n, y += n) {
    const float s = scale[r];
    const Real z = A::difference(zero_point[r], Real{0});
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(A::difference(x[i], z)) * s;
  }
}

template <class Q>
void dequantize_linear_channels(const Q* __restrict x, float* __restrict y, size_t n, const float* __restrict scale,
                                const Q* __restrict zero_point) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  for (size_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(A::difference(x[i], A::difference(zero_point[i], Real{0}))) * scale[i];
  }
}

template <class Q>
void fake_quantize_linear(const float* x, float* y, size_t runs, size_t n, const float* __restrict scale,
                          const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  for (size_t r = 0; r < runs; ++r, x += n, y += n) {
    const float s = scale[r];
    const Real z = A::difference(zero_point[r], Real{0});
    const Real low = static_cast<Real>(qmin) - z, high = static_cast<Real>(qmax) - z;
    for (size_t i = 0; i < n; ++i) {
      y[i] = static_cast<float>(A::rounded(clamped(static_cast<Real>(x[i] / s), low, high))) * s;
    }
  }
}

template <class Q>
void fake_quantize_linear_channels(const float* x, float* y, size_t n, const float* __restrict scale,
                                   const Q* __restrict zero_point, int64_t qmin, int64_t qmax) {
  using A = typename ArithmeticOf<Q>::type;
  using Real = typename A::Real;
  const Real low = static_cast<Real>(qmin), high = static_cast<Real>(qmax);
  for (size_t i = 0; i < n; ++i) {
    const Real z = A::difference(zero_point[i], Real{0});
    y[i] = static_cast<float>(A::rounded(clamped(static_cast<Real>(x[i] / scale[i]), low - z, high - z))) * scale[i];
  }
}

template <class Q>
constexpr LinearKernels<Q> linear_kernels() {
  return {quantize_linear<Q>,      quantize_linear_channels<Q>,     dequantize_linear<Q>, dequantize_linear_channels<Q>,
          fake_quantize_linear<Q>, fake_quantize_linear_channels<Q>};
}

}  // namespace
}  // namespace quarkfast::QF_ISA
