// Requantization of 32-bit sums to 8-bit codes, by a scale or by a shift.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../requantize.h"
#include "array.h"
#include "linear_arguments.h"

namespace quarkfast::python {

namespace {

// Binds one way to requantize; `function` takes (x, y, layout, factor, zero_point, range, pool).
template <class Q, class Factor, class Function>
void def_requantize(py::module_& m, const std::string& name, const char* dtype, const char* factor_name,
                    Function function) {
  m.def(
      name.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, const py::array& factor, const Optional& zero_point,
          int64_t qmin, int64_t qmax) {
        require(x, name.c_str(), "x", "int32");
        require(y, name.c_str(), "out", dtype);
        const auto call = checked<Q, Factor>(name, dtype, x, y, dims, 0, factor, zero_point);
        const CodeRange range = checked_range(name, qmin, qmax, call);
        const auto* from = static_cast<const int32_t*>(x.data());
        auto* to = static_cast<Q*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        function(from, to, call.layout, call.scale, call.zero_point, range, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg(factor_name), py::arg("zero_point"), py::arg("qmin"),
      py::arg("qmax"), "8-bit codes of 32-bit sums seen as [outer, axis, inner].");
}

template <class Q>
void def_requantizes(py::module_& m, const std::string& code, const char* dtype) {
  def_requantize<Q, float>(m, "requantize_linear_i32_" + code, dtype, "scale", requantize_linear<Q>);
  const auto shift = [](HalfRounding rounding) {
    return
        [=](const int32_t* x, Q* y, const ScaleLayout& layout, const int32_t* by, const Q* zero_point, CodeRange range,
            const Pool& pool) { requantize_shift<Q>(x, y, layout, by, zero_point, range, rounding, pool); };
  };
  def_requantize<Q, int32_t>(m, "requantize_shift_half_up_i32_" + code, dtype, "shift", shift(HalfRounding::kUp));
  def_requantize<Q, int32_t>(m, "requantize_shift_half_even_i32_" + code, dtype, "shift", shift(HalfRounding::kEven));
}

}  // namespace

void register_requantize(py::module_& m) {
  def_requantizes<int8_t>(m, "i8", "int8");
  def_requantizes<uint8_t>(m, "u8", "uint8");
}

}  // namespace quarkfast::python
