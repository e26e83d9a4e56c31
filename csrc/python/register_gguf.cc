// Blocks of GGUF files.
#include <pybind11/pybind11.h>

#include <string>

#include "python/array.h"
#include "runtime/dispatch.h"
#include "tensor/gguf.h"

namespace quarkfast::python {

namespace {

void require_whole_blocks(const py::array& values, const py::array& records, const char* where, const GgufSize& size) {
  const auto n = static_cast<size_t>(values.size()), bytes = static_cast<size_t>(records.size());
  if (n % size.values || n / size.values * size.bytes != bytes) {
    throw py::value_error(std::string(where) + ": out: expected " + std::to_string(size.bytes) + " bytes for each " +
                          std::to_string(size.values) + " values, got " + std::to_string(bytes) + " for " +
                          std::to_string(n));
  }
}

void def_gguf(py::module_& m, const std::string& type, GgufKernels Kernels::* kernels) {
  const std::string quantize = "quantize_gguf_f32_" + type;
  m.def(
      quantize.c_str(),
      [=](const py::array& x, py::array& y) {
        const char* where = quantize.c_str();
        require(x, where, "x", "float32");
        require(y, where, "out", "uint8");
        require_writeable(y, where, "out");
        const GgufKernels& k = active().*kernels;
        require_whole_blocks(x, y, where, k.size);
        require_apart(x, y, where);
        const auto* from = static_cast<const float*>(x.data());
        auto* to = static_cast<uint8_t*>(y.mutable_data());
        const auto blocks = static_cast<size_t>(x.size()) / k.size.values;
        const py::gil_scoped_release release;  // only raw memory from here on
        quantize_gguf(k, from, to, blocks, shared_pool());
      },
      py::arg("x"), py::arg("out"), "Blocks of a GGUF file.");

  const std::string dequantize = "dequantize_gguf_" + type + "_f32";
  m.def(
      dequantize.c_str(),
      [=](const py::array& x, py::array& y) {
        const char* where = dequantize.c_str();
        require(x, where, "x", "uint8");
        require(y, where, "out", "float32");
        require_writeable(y, where, "out");
        const GgufKernels& k = active().*kernels;
        require_whole_blocks(y, x, where, k.size);
        require_apart(x, y, where);
        const auto* from = static_cast<const uint8_t*>(x.data());
        auto* to = static_cast<float*>(y.mutable_data());
        const auto blocks = static_cast<size_t>(y.size()) / k.size.values;
        const py::gil_scoped_release release;  // only raw memory from here on
        dequantize_gguf(k, from, to, blocks, shared_pool());
      },
      py::arg("x"), py::arg("out"), "Values of blocks of a GGUF file.");
}

}  // namespace

void register_gguf(py::module_& m) {
  def_gguf(m, "q4_0", &Kernels::q4_0);
  def_gguf(m, "q4_1", &Kernels::q4_1);
  def_gguf(m, "q5_0", &Kernels::q5_0);
  def_gguf(m, "q5_1", &Kernels::q5_1);
  def_gguf(m, "q8_0", &Kernels::q8_0);
  def_gguf(m, "q4_k", &Kernels::q4_k);
  def_gguf(m, "q6_k", &Kernels::q6_k);
}

}  // namespace quarkfast::python
