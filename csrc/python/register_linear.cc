// Linear quantization for each integer type, any axis, any block.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "../linear.h"
#include "../numerics/types.h"
#include "array.h"

namespace quarkfast::python {

namespace {

using Optional = std::optional<py::array>;
using Dims = std::array<size_t, 3>;  // outer, axis, inner

// block == 0 stands for one scale per index along the axis; a single scale for one per tensor.
ScaleLayout layout_of(const Dims& dims, size_t block, bool per_tensor) {
  if (per_tensor) return ScaleLayout::per_tensor(dims[0] * dims[1] * dims[2]);
  return block ? ScaleLayout::per_block(dims[0], dims[1], dims[2], block)
               : ScaleLayout::per_channel(dims[0], dims[1], dims[2]);
}

void require_scale(const py::array& scale, const std::string& where) {
  require(scale, where.c_str(), "scale", "float32");
  const auto* values = static_cast<const float*>(scale.data());
  for (py::ssize_t i = 0; i < scale.size(); ++i) {
    if (!(values[i] > 0) || values[i] > std::numeric_limits<float>::max()) {
      throw py::value_error(where + ": scale: expected finite values > 0, got " + text(py::float_(values[i])) +
                            " at index " + std::to_string(i));
    }
  }
}

// One call's checked arguments.
template <class Q>
struct Call {
  ScaleLayout layout;
  const float* scale;
  const Q* zero_point;
};

template <class Q>
Call<Q> checked(const std::string& where, const char* dtype, const py::array& x, const py::array& y, const Dims& dims,
                size_t block, const py::array& scale, const Optional& zero_point) {
  require_writeable(y, where.c_str(), "out");
  require_size(x, where.c_str(), "x", static_cast<py::ssize_t>(dims[0] * dims[1] * dims[2]));
  require_size(y, where.c_str(), "out", x.size());
  require_no_overlap(x, y, where.c_str());
  require_scale(scale, where);
  const ScaleLayout layout = layout_of(dims, block, scale.size() == 1 && scale.ndim() == 0);
  require_size(scale, where.c_str(), "scale", static_cast<py::ssize_t>(layout.scales()));
  const Q* zeros = nullptr;
  if (zero_point) {
    require(*zero_point, where.c_str(), "zero_point", dtype);
    require_size(*zero_point, where.c_str(), "zero_point", scale.size());
    zeros = static_cast<const Q*>(zero_point->data());
  }
  return {layout, static_cast<const float*>(scale.data()), zeros};
}

template <class Q>
CodeRange checked_range(const std::string& where, int64_t qmin, int64_t qmax, const Call<Q>& call) {
  using Limits = CodeLimits<Q>;
  if (qmin > qmax || qmin < Limits::kMin || qmax > Limits::kMax) {
    throw py::value_error(where + ": range: expected " + std::to_string(Limits::kMin) +
                          " <= qmin <= qmax <= " + std::to_string(Limits::kMax) + ", got [" + std::to_string(qmin) +
                          ", " + std::to_string(qmax) + "]");
  }
  for (size_t i = 0; call.zero_point && i < call.layout.scales(); ++i) {
    const auto z = static_cast<int64_t>(code_of(call.zero_point[i]));
    if (z < qmin || z > qmax) {
      throw py::value_error(where + ": zero_point: expected values in [" + std::to_string(qmin) + ", " +
                            std::to_string(qmax) + "], got " + std::to_string(z) + " at index " + std::to_string(i));
    }
  }
  return {qmin, qmax};
}

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
