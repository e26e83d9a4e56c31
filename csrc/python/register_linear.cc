// Linear quantization for each integer type, any axis, any block.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../linear.h"
#include "array.h"
#include "linear_arguments.h"

namespace quarkfast::python {

namespace {

template <class Q>
void def_linear(py::module_& m, const std::string& code, const char* dtype) {
  const std::string quantize = "quantize_linear_f32_" + code;
  m.def(
      quantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point, int64_t qmin, int64_t qmax) {
        require(x, quantize.c_str(), "x", "float32");
        require(y, quantize.c_str(), "out", dtype);
        const Call<Q> call = checked<Q>(quantize, dtype, x, y, dims, block, scale, zero_point);
        const CodeRange range = checked_range(quantize, qmin, qmax, call);
        const auto* from = static_cast<const float*>(x.data());
        auto* to = static_cast<Q*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        quantize_linear<Q>(from, to, call.layout, call.scale, call.zero_point, range, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      py::arg("qmin"), py::arg("qmax"), "Codes of x seen as [outer, axis, inner].");

  const std::string dequantize = "dequantize_linear_" + code + "_f32";
  m.def(
      dequantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point) {
        require(x, dequantize.c_str(), "x", dtype);
        require(y, dequantize.c_str(), "out", "float32");
        const Call<Q> call = checked<Q>(dequantize, dtype, x, y, dims, block, scale, zero_point);
        const auto* from = static_cast<const Q*>(x.data());
        auto* to = static_cast<float*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        dequantize_linear<Q>(from, to, call.layout, call.scale, call.zero_point, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      "Values of the codes x seen as [outer, axis, inner].");

  const std::string fake = "fake_quantize_linear_f32_" + code;
  m.def(
      fake.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, size_t block, const py::array& scale,
          const Optional& zero_point, int64_t qmin, int64_t qmax) {
        require(x, fake.c_str(), "x", "float32");
        require(y, fake.c_str(), "out", "float32");
        const Call<Q> call = checked<Q>(fake, dtype, x, y, dims, block, scale, zero_point);
        const CodeRange range = checked_range(fake, qmin, qmax, call);
        const auto* from = static_cast<const float*>(x.data());
        auto* to = static_cast<float*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        fake_quantize_linear<Q>(from, to, call.layout, call.scale, call.zero_point, range, openmp_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("block"), py::arg("scale"), py::arg("zero_point"),
      py::arg("qmin"), py::arg("qmax"), "x after quantization and dequantization.");
}

}  // namespace

void register_linear(py::module_& m) {
  def_linear<i2>(m, "i2", "int2");
  def_linear<u2>(m, "u2", "uint2");
  def_linear<i4>(m, "i4", "int4");
  def_linear<u4>(m, "u4", "uint4");
  def_linear<int8_t>(m, "i8", "int8");
  def_linear<uint8_t>(m, "u8", "uint8");
  def_linear<int16_t>(m, "i16", "int16");
  def_linear<uint16_t>(m, "u16", "uint16");
  def_linear<int32_t>(m, "i32", "int32");
  def_linear<uint32_t>(m, "u32", "uint32");
}

}  // namespace quarkfast::python
