#include "tensor/requantize.h"

#include "runtime/dispatch.h"
#include "tensor/scale_tiles.h"

namespace quarkfast {

namespace {

template <class Q>
const RequantizeKernels<Q>& kernels_of(const Kernels& k);
template <>
const RequantizeKernels<int8_t>& kernels_of(const Kernels& k) {
  return k.requantize_i8;
}
template <>
const RequantizeKernels<uint8_t>& kernels_of(const Kernels& k) {
  return k.requantize_u8;
}

template <class Factor, class Q>
struct Requantize {
  const RequantizeBy<Factor, Q>& kernels;
  CodeRange range;

  void runs(const int32_t* x, Q* y, size_t runs, size_t n, const Factor* factor, const Q* zero_point) const {
    kernels.runs(x, y, runs, n, factor, zero_point, range.qmin, range.qmax);
  }
  void channels(const int32_t* x, Q* y, size_t n, const Factor* factor, const Q* zero_point) const {
    kernels.channels(x, y, n, factor, zero_point, range.qmin, range.qmax);
  }
};

}  // namespace

template <class Q>
void requantize_linear(const int32_t* x, Q* y, const ScaleLayout& layout, const float* scale, const Q* zero_point,
                       CodeRange range, const Pool& pool) {
  const Requantize<float, Q> operation{kernels_of<Q>(active()).requantize_linear, range};
  drive(operation, x, y, layout, scale, zero_point, pool);
}

template <class Q>
void requantize_shift(const int32_t* x, Q* y, const ScaleLayout& layout, const int32_t* shift, const Q* zero_point,
                      CodeRange range, HalfRounding rounding, const Pool& pool) {
  const RequantizeKernels<Q>& k = kernels_of<Q>(active());
  const bool up = rounding == HalfRounding::kUp;
  const Requantize<int32_t, Q> operation{up ? k.requantize_shift_half_up : k.requantize_shift_half_even, range};
  drive(operation, x, y, layout, shift, zero_point, pool);
}

template QUARKFAST_API void requantize_linear<int8_t>(const int32_t*, int8_t*, const ScaleLayout&, const float*,
                                                      const int8_t*, CodeRange, const Pool&);
template QUARKFAST_API void requantize_linear<uint8_t>(const int32_t*, uint8_t*, const ScaleLayout&, const float*,
                                                       const uint8_t*, CodeRange, const Pool&);
template QUARKFAST_API void requantize_shift<int8_t>(const int32_t*, int8_t*, const ScaleLayout&, const int32_t*,
                                                     const int8_t*, CodeRange, HalfRounding, const Pool&);
template QUARKFAST_API void requantize_shift<uint8_t>(const int32_t*, uint8_t*, const ScaleLayout&, const int32_t*,
                                                      const uint8_t*, CodeRange, HalfRounding, const Pool&);

}  // namespace quarkfast
