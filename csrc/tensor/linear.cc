#include "tensor/linear.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/dispatch.h"
#include "tensor/half_precision.h"
#include "tensor/scale_tiles.h"

namespace quarkfast {

namespace {

template <class Q>
const LinearKernels<Q>& kernels_of(const Kernels& k);
template <>
const LinearKernels<i2>& kernels_of(const Kernels& k) {
  return k.i2;
}
template <>
const LinearKernels<u2>& kernels_of(const Kernels& k) {
  return k.u2;
}
template <>
const LinearKernels<i4>& kernels_of(const Kernels& k) {
  return k.i4;
}
template <>
const LinearKernels<u4>& kernels_of(const Kernels& k) {
  return k.u4;
}
template <>
const LinearKernels<int8_t>& kernels_of(const Kernels& k) {
  return k.i8;
}
template <>
const LinearKernels<uint8_t>& kernels_of(const Kernels& k) {
  return k.u8;
}
template <>
const LinearKernels<int16_t>& kernels_of(const Kernels& k) {
  return k.i16;
}
template <>
const LinearKernels<uint16_t>& kernels_of(const Kernels& k) {
  return k.u16;
}
template <>
const LinearKernels<int32_t>& kernels_of(const Kernels& k) {
  return k.i32;
}
template <>
const LinearKernels<uint32_t>& kernels_of(const Kernels& k) {
  return k.u32;
}

template <class Q>
struct Quantize {
  const LinearKernels<Q>& k;
  CodeRange range;

  void runs(const float* x, Q* y, size_t runs, size_t n, const float* scale, const Q* zero_point) const {
    k.quantize_linear(x, y, runs, n, scale, zero_point, range.qmin, range.qmax);
  }
  void channels(const float* x, Q* y, size_t n, const float* scale, const Q* zero_point) const {
    k.quantize_linear_channels(x, y, n, scale, zero_point, range.qmin, range.qmax);
  }
};

template <class Q>
struct Dequantize {
  const LinearKernels<Q>& k;

  void runs(const Q* x, float* y, size_t runs, size_t n, const float* scale, const Q* zero_point) const {
    k.dequantize_linear(x, y, runs, n, scale, zero_point);
  }
  void channels(const Q* x, float* y, size_t n, const float* scale, const Q* zero_point) const {
    k.dequantize_linear_channels(x, y, n, scale, zero_point);
  }
};

template <class Q>
struct FakeQuantize {
  const LinearKernels<Q>& k;
  CodeRange range;

  void runs(const float* x, float* y, size_t runs, size_t n, const float* scale, const Q* zero_point) const {
    k.fake_quantize_linear(x, y, runs, n, scale, zero_point, range.qmin, range.qmax);
  }
  void channels(const float* x, float* y, size_t n, const float* scale, const Q* zero_point) const {
    k.fake_quantize_linear_channels(x, y, n, scale, zero_point, range.qmin, range.qmax);
  }
};

// Calls body(at, n, buffer) on windows of the array whose float32 values stay in the first cache.
template <class Body>
void drive_windows(size_t size, const Pool& pool, Body&& body) {
  constexpr size_t kWindow = 2048;
  parallel_for(pool, size, kElementwiseGrain, [&](size_t begin, size_t end) {
    float buffer[kWindow];
    for (size_t at = begin; at < end; at += kWindow) body(at, std::min(kWindow, end - at), buffer);
  });
}

}  // namespace

template <class Q, class X>
void quantize_linear(const X* x, Q* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                     CodeRange range, const Pool& pool) {
  const Kernels& k = active();
  const Quantize<Q> operation{kernels_of<Q>(k), range};
  if constexpr (std::is_same_v<X, float>) {
    drive(operation, x, y, layout, scale, zero_point, pool);
  } else {
    std::vector<Q> zeros;
    const Q* z = zero_points(zero_point, layout.scales(), zeros);
    drive_windows(layout.size(), pool, [&](size_t at, size_t n, float* buffer) {
      widen(k, x + at, buffer, n);
      cover(operation, buffer, y + at, layout, scale, z, at, at + n);
    });
  }
}

template <class Q, class Y>
void dequantize_linear(const Q* x, Y* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                       const Pool& pool) {
  const Kernels& k = active();
  const Dequantize<Q> operation{kernels_of<Q>(k)};
  if constexpr (std::is_same_v<Y, float>) {
    drive(operation, x, y, layout, scale, zero_point, pool);
  } else {
    std::vector<Q> zeros;
    const Q* z = zero_points(zero_point, layout.scales(), zeros);
    drive_windows(layout.size(), pool, [&](size_t at, size_t n, float* buffer) {
      cover(operation, x + at, buffer, layout, scale, z, at, at + n);
      narrow(k, buffer, y + at, n);
    });
  }
}

template <class Q, class X>
void fake_quantize_linear(const X* x, X* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                          CodeRange range, const Pool& pool) {
  const Kernels& k = active();
  const FakeQuantize<Q> operation{kernels_of<Q>(k), range};
  if constexpr (std::is_same_v<X, float>) {
    drive(operation, x, y, layout, scale, zero_point, pool);
  } else {
    std::vector<Q> zeros;
    const Q* z = zero_points(zero_point, layout.scales(), zeros);
    drive_windows(layout.size(), pool, [&](size_t at, size_t n, float* buffer) {
      widen(k, x + at, buffer, n);
      cover(operation, buffer, buffer, layout, scale, z, at, at + n);
      narrow(k, buffer, y + at, n);
    });
  }
}

// The types that exist; a template function is exported only where it is instantiated.
#define QF_INSTANTIATE_LINEAR(Q, X)                                                                                \
  template QUARKFAST_API void quantize_linear<Q, X>(const X*, Q*, const ScaleLayout&, const float*, const Q*,      \
                                                    CodeRange, const Pool&);                                       \
  template QUARKFAST_API void dequantize_linear<Q, X>(const Q*, X*, const ScaleLayout&, const float*, const Q*,    \
                                                      const Pool&);                                                \
  template QUARKFAST_API void fake_quantize_linear<Q, X>(const X*, X*, const ScaleLayout&, const float*, const Q*, \
                                                         CodeRange, const Pool&);
#define QF_INSTANTIATE_LINEAR_CODES(X) \
  QF_INSTANTIATE_LINEAR(i2, X)         \
  QF_INSTANTIATE_LINEAR(u2, X)         \
  QF_INSTANTIATE_LINEAR(i4, X)         \
  QF_INSTANTIATE_LINEAR(u4, X)         \
  QF_INSTANTIATE_LINEAR(int8_t, X)     \
  QF_INSTANTIATE_LINEAR(uint8_t, X)    \
  QF_INSTANTIATE_LINEAR(int16_t, X)    \
  QF_INSTANTIATE_LINEAR(uint16_t, X)   \
  QF_INSTANTIATE_LINEAR(int32_t, X)    \
  QF_INSTANTIATE_LINEAR(uint32_t, X)
QF_INSTANTIATE_LINEAR_CODES(float)
QF_INSTANTIATE_LINEAR_CODES(f16)
QF_INSTANTIATE_LINEAR_CODES(bf16)
#undef QF_INSTANTIATE_LINEAR_CODES
#undef QF_INSTANTIATE_LINEAR

}  // namespace quarkfast
