// The one binding of all kernels that take a scale and a zero point: linear quantization and requantization.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <functional>
#include <string>

#include "numerics/types.h"
#include "tensor/linear.h"

namespace quarkfast::python {

namespace py = pybind11;

// What a binding has to know of the type of zero points.
struct ZeroPointType {
  const char* dtype;
  CodeRange limits;                             // of an integer; a float has none
  void (*store)(int64_t code, void* to);        // null for a float
  double (*value)(const void* data, size_t i);  // exact: no type has more than 32 bits
};

// Runs a kernel on what is checked already: run(x, y, layout, factor, zero_point, range, pool).
using ScaledRun =
    std::function<void(const void*, void*, const ScaleLayout&, const void*, const void*, CodeRange, const Pool&)>;

struct ScaledKernel {
  std::string name;
  const char* x;
  const char* out;
  ZeroPointType zero_point;
  const char* factor = "scale";  // or "shift", of int32
  bool mirrored = false;         // whether a scale may be below zero
  ScaledRun run;
};

// Binds name(x, out, scale, zero_point, axis, block_size), and the same with (qmin, qmax) behind it, of which None
// stands for the type's own. x is of the kernel's dtype and copied where it is not contiguous, out may be None. Returns
// the result; or None where scale, zero_point, axis or block_size is not as it is read here, an array of the dtype
// that the kernel reads or a plain number: the caller then converts them and calls again.
void def_scaled(py::module_& m, ScaledKernel kernel, const char* doc);
void def_scaled_to_range(py::module_& m, ScaledKernel kernel, const char* doc);

template <class Q>
ZeroPointType integer_zero_points(const char* dtype) {
  return {dtype,
          {CodeLimits<Q>::kMin, CodeLimits<Q>::kMax},
          [](int64_t code, void* to) { *static_cast<Q*>(to) = element_of<Q>(code); },
          [](const void* data, size_t i) { return static_cast<double>(code_of(static_cast<const Q*>(data)[i])); }};
}

// A kernel as the binding calls it, with a range of codes or without.
template <class X, class Y, class F, class Z>
ScaledRun erased(void (*run)(const X*, Y*, const ScaleLayout&, const F*, const Z*, CodeRange, const Pool&)) {
  return [run](const void* x, void* y, const ScaleLayout& layout, const void* factor, const void* zero_point,
               CodeRange range, const Pool& pool) {
    run(static_cast<const X*>(x), static_cast<Y*>(y), layout, static_cast<const F*>(factor),
        static_cast<const Z*>(zero_point), range, pool);
  };
}
template <class X, class Y, class F, class Z>
ScaledRun erased(void (*run)(const X*, Y*, const ScaleLayout&, const F*, const Z*, const Pool&)) {
  return [run](const void* x, void* y, const ScaleLayout& layout, const void* factor, const void* zero_point, CodeRange,
               const Pool& pool) {
    run(static_cast<const X*>(x), static_cast<Y*>(y), layout, static_cast<const F*>(factor),
        static_cast<const Z*>(zero_point), pool);
  };
}

}  // namespace quarkfast::python
