// Linear quantization for each integer type, any axis, any block.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../linear.h"
#include "array.h"
#include "linear_arguments.h"

namespace quarkfast::python {

namespace {

// Binds the three functions of integer type Q and float type X.
template <class Q, class X>
void def_linear(py::module_& m, const std::string& code, const char* dtype, const std::string& real,
                const char* real_dtype) {
  const std::string quantize = "quantize_linear_" + real + "_" + code;
  m.def(
      quantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point, int64_t qmin, int64_t qmax) {
        require(x, quantize.c_str(), "x", real_dtype);
        require(y, quantize.c_str(), "out", dtype);
        const Call<Q> call = checked<Q>(quantize, dtype, x, y, dims, block, scale, zero_point);
        const CodeRange range = checked_range(quantize, qmin, qmax, call);
        const auto* from = static_cast<const X*>(x.data());
        auto* to = static_cast<Q*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        quantize_linear<Q, X>(from, to, call.layout, call.scale, call.zero_point, range, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      py::arg("qmin"), py::arg("qmax"), "Codes of x seen as [outer, axis, inner].");

  const std::string dequantize = "dequantize_linear_" + code + "_" + real;
  m.def(
      dequantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point) {
        require(x, dequantize.c_str(), "x", dtype);
        require(y, dequantize.c_str(), "out", real_dtype);
        const Call<Q> call = checked<Q>(dequantize, dtype, x, y, dims, block, scale, zero_point);
        const auto* from = static_cast<const Q*>(x.data());
        auto* to = static_cast<X*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        dequantize_linear<Q, X>(from, to, call.layout, call.scale, call.zero_point, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      "Values of the codes x seen as [outer, axis, inner].");

  const std::string fake = "fake_quantize_linear_" + real + "_" + code;
  m.def(
      fake.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point, int64_t qmin, int64_t qmax) {
        require(x, fake.c_str(), "x", real_dtype);
        require(y, fake.c_str(), "out", real_dtype);
        const Call<Q> call = checked<Q>(fake, dtype, x, y, dims, block, scale, zero_point);
        const CodeRange range = checked_range(fake, qmin, qmax, call);
        const auto* from = static_cast<const X*>(x.data());
        auto* to = static_cast<X*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        fake_quantize_linear<Q, X>(from, to, call.layout, call.scale, call.zero_point, range, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      py::arg("qmin"), py::arg("qmax"), "x after quantization and dequantization.");
}

template <class Q>
void def_linears(py::module_& m, const std::string& code, const char* dtype) {
  def_linear<Q, float>(m, code, dtype, "f32", "float32");
  def_linear<Q, f16>(m, code, dtype, "f16", "float16");
  def_linear<Q, bf16>(m, code, dtype, "bf16", "bfloat16");
}

}  // namespace

void register_linear(py::module_& m) {
  def_linears<i2>(m, "i2", "int2");
  def_linears<u2>(m, "u2", "uint2");
  def_linears<i4>(m, "i4", "int4");
  def_linears<u4>(m, "u4", "uint4");
  def_linears<int8_t>(m, "i8", "int8");
  def_linears<uint8_t>(m, "u8", "uint8");
  def_linears<int16_t>(m, "i16", "int16");
  def_linears<uint16_t>(m, "u16", "uint16");
  def_linears<int32_t>(m, "i32", "int32");
  def_linears<uint32_t>(m, "u32", "uint32");
}

}  // namespace quarkfast::python
