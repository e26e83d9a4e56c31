// The 16-bit floats by overload: widened to float32, exactly, and narrowed from it, half to even.
#pragma once

#include <cstddef>

#include "kernels.h"
#include "numerics/types.h"

namespace quarkfast {

inline void widen(const Kernels& k, const f16* x, float* y, size_t n) {
  k.cast_f16_f32(x, y, n);
}
inline void widen(const Kernels& k, const bf16* x, float* y, size_t n) {
  k.cast_bf16_f32(x, y, n);
}

inline void narrow(const Kernels& k, const float* x, f16* y, size_t n) {
  k.cast_f32_f16(x, y, n);
}
inline void narrow(const Kernels& k, const float* x, bf16* y, size_t n) {
  k.cast_f32_bf16(x, y, n);
}

}  // namespace quarkfast
