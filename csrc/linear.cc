#include "linear.h"

#include <vector>

#include "dispatch.h"
#include "scale_tiles.h"

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

}  // namespace

template <class Q>
void quantize_linear(const float* x, Q* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                     CodeRange range, const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.quantize_linear(x + at, y + at, runs, n, s, z, range.qmin, range.qmax);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) {
        k.quantize_linear_channels(x + at, y + at, n, s, z, range.qmin, range.qmax);
      });
}

template <class Q>
void dequantize_linear(const Q* x, float* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                       const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.dequantize_linear(x + at, y + at, runs, n, s, z);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) { k.dequantize_linear_channels(x + at, y + at, n, s, z); });
}

template <class Q>
void fake_quantize_linear(const float* x, float* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                          CodeRange range, const Pool& pool) {
  const LinearKernels<Q>& k = kernels_of<Q>(active());
  std::vector<Q> zeros;
  drive(
      layout, scale, zero_points(zero_point, layout.scales(), zeros), pool,
      [&](size_t at, size_t runs, size_t n, const float* s, const Q* z) {
        k.fake_quantize_linear(x + at, y + at, runs, n, s, z, range.qmin, range.qmax);
      },
      [&](size_t at, size_t n, const float* s, const Q* z) {
        k.fake_quantize_linear_channels(x + at, y + at, n, s, z, range.qmin, range.qmax);
      });
}

// The types that exist; a template function is exported only where it is instantiated.
#define QF_INSTANTIATE_LINEAR(Q)                                                                                 \
  template QUARKFAST_API void quantize_linear<Q>(const float*, Q*, const ScaleLayout&, const float*, const Q*,   \
                                                 CodeRange, const Pool&);                                        \
  template QUARKFAST_API void dequantize_linear<Q>(const Q*, float*, const ScaleLayout&, const float*, const Q*, \
                                                   const Pool&);                                                 \
  template QUARKFAST_API void fake_quantize_linear<Q>(const float*, float*, const ScaleLayout&, const float*,    \
                                                      const Q*, CodeRange, const Pool&);
QF_INSTANTIATE_LINEAR(i2)
QF_INSTANTIATE_LINEAR(u2)
QF_INSTANTIATE_LINEAR(i4)
QF_INSTANTIATE_LINEAR(u4)
QF_INSTANTIATE_LINEAR(int8_t)
QF_INSTANTIATE_LINEAR(uint8_t)
QF_INSTANTIATE_LINEAR(int16_t)
QF_INSTANTIATE_LINEAR(uint16_t)
QF_INSTANTIATE_LINEAR(int32_t)
QF_INSTANTIATE_LINEAR(uint32_t)
#undef QF_INSTANTIATE_LINEAR

}  // namespace quarkfast
