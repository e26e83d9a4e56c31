// Stochastic rounding.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <string>

#include "python/array.h"
#include "tensor/stochastic.h"

namespace quarkfast::python {

namespace {

template <class Q>
void def_quantize(py::module_& m, const std::string& code, const char* dtype) {
  const std::string name = "quantize_linear_stochastic_f32_" + code;
  m.def(
      name.c_str(),
      [=](const py::array& x, py::array& y, const std::array<size_t, 3>& dims, const py::array& scale,
          const py::array& zero_point, int64_t qmin, int64_t qmax, uint64_t seed) {
        const char* where = name.c_str();
        const ChannelLayout layout{dims[0], dims[1], dims[2]};
        const auto channels = static_cast<py::ssize_t>(layout.channels);
        require(x, where, "x", "float32");
        require_size(x, where, "x", static_cast<py::ssize_t>(layout.size()));
        require(y, where, "out", dtype);
        require_size(y, where, "out", x.size());
        require_writeable(y, where, "out");
        require(scale, where, "scale", "float32");
        require_size(scale, where, "scale", channels);
        require(zero_point, where, "zero_point", dtype);
        require_size(zero_point, where, "zero_point", channels);
        if (qmin > qmax || qmin < CodeLimits<Q>::kMin || qmax > CodeLimits<Q>::kMax) {
          throw py::value_error(name + ": range: expected codes of " + dtype + ", got [" + std::to_string(qmin) + ", " +
                                std::to_string(qmax) + "]");
        }
        require_apart(x, y, where);
        const auto* from = static_cast<const float*>(x.data());
        auto* to = static_cast<Q*>(y.mutable_data());
        const auto* scales = static_cast<const float*>(scale.data());
        const auto* zeros = static_cast<const Q*>(zero_point.data());
        const py::gil_scoped_release release;  // only raw memory from here on
        quantize_linear_stochastic(from, to, layout, scales, zeros, CodeRange{qmin, qmax}, seed, shared_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("scale"), py::arg("zero_point"), py::arg("qmin"),
      py::arg("qmax"), py::arg("seed"), "Codes of x seen as [outer, channels, inner], rounded at random.");
}

void cast(const py::array& x, py::array& y, uint64_t seed) {
  const char* where = "cast_stochastic_f32_bf16";
  require(x, where, "x", "float32");
  require(y, where, "out", "bfloat16");
  require_writeable(y, where, "out");
  require_size(y, where, "out", x.size());
  require_apart(x, y, where);
  const auto* from = static_cast<const float*>(x.data());
  auto* to = static_cast<bf16*>(y.mutable_data());
  const auto n = static_cast<size_t>(x.size());
  const py::gil_scoped_release release;  // only raw memory from here on
  cast_stochastic(from, to, n, seed, shared_pool());
}

}  // namespace

void register_stochastic(py::module_& m) {
  def_quantize<i4>(m, "i4", "int4");
  def_quantize<u4>(m, "u4", "uint4");
  def_quantize<int8_t>(m, "i8", "int8");
  def_quantize<uint8_t>(m, "u8", "uint8");
  def_quantize<int16_t>(m, "i16", "int16");
  def_quantize<uint16_t>(m, "u16", "uint16");
  m.def("cast_stochastic_f32_bf16", cast, py::arg("x"), py::arg("out"), py::arg("seed"),
        "bfloat16 values of x, rounded at random.");
}

}  // namespace quarkfast::python
