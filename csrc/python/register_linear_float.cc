// Linear quantization to 16-bit floats, any axis, any block.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../linear_float.h"
#include "array.h"
#include "linear_arguments.h"

namespace quarkfast::python {

namespace {

// Binds f(x, out, dims, block, scale, zero_point) from X to Y; F is the 16-bit one of the two.
template <class F, class X, class Y>
void def_direction(py::module_& m, const std::string& name, const char* in, const char* out, const char* dtype,
                   void (*run)(const X*, Y*, const ScaleLayout&, const float*, const F*, const Pool&)) {
  const std::string doc = std::string(in) + " -> " + out + " of x seen as [outer, axis, inner].";
  m.def(
      name.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const py::array& zero_point) {
        require(x, name.c_str(), "x", in);
        require(y, name.c_str(), "out", out);
        const Call<F> call = checked<F>(name, dtype, x, y, dims, block, scale, zero_point);
        const auto* from = static_cast<const X*>(x.data());
        auto* to = static_cast<Y*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        run(from, to, call.layout, call.scale, call.zero_point, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      doc.c_str());
}

template <class F>
void def_linear_float(py::module_& m, const std::string& code, const char* dtype) {
  def_direction<F, float, F>(m, "quantize_linear_f32_" + code, "float32", dtype, dtype, quantize_linear);
  def_direction<F, F, float>(m, "dequantize_linear_" + code + "_f32", dtype, "float32", dtype, dequantize_linear);
}

}  // namespace

void register_linear_float(py::module_& m) {
  def_linear_float<f16>(m, "f16", "float16");
  def_linear_float<bf16>(m, "bf16", "bfloat16");
}

}  // namespace quarkfast::python
