// Packing of 2-, 3- and 4-bit codes.
#include <pybind11/pybind11.h>

#include "python/array.h"
#include "runtime/dispatch.h"
#include "tensor/packing.h"

namespace quarkfast::python {

namespace {

template <class Code>
void def_packing(py::module_& m, const std::string& code, const char* dtype, size_t bits,
                 PackKernels Kernels::* kernels, bool (*PackKernels::*pack_kernel)(const Code*, uint8_t*, size_t),
                 void (*PackKernels::*unpack_kernel)(const uint8_t*, Code*, size_t)) {
  const std::string packed = "p" + std::to_string(bits);

  const std::string pack = "pack_codes_" + code + "_" + packed;
  m.def(
      pack.c_str(),
      [=](const py::array& x, py::array& y) {
        require(x, pack.c_str(), "x", dtype);
        require(y, pack.c_str(), "out", "uint8");
        require_writeable(y, pack.c_str(), "out");
        const auto n = static_cast<size_t>(x.size());
        require_size(y, pack.c_str(), "out", static_cast<py::ssize_t>(packed_size(n, bits)));
        require_apart(x, y, pack.c_str());
        const auto* from = static_cast<const Code*>(x.data());
        auto* to = static_cast<uint8_t*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        return pack_codes((active().*kernels).*pack_kernel, from, to, n, bits, shared_pool());
      },
      py::arg("x"), py::arg("out"), "Packs codes; returns whether all of them fit.");

  const std::string unpack = "unpack_codes_" + packed + "_" + code;
  m.def(
      unpack.c_str(),
      [=](const py::array& x, py::array& y) {
        require(x, unpack.c_str(), "x", "uint8");
        require(y, unpack.c_str(), "out", dtype);
        require_writeable(y, unpack.c_str(), "out");
        const auto n = static_cast<size_t>(y.size());
        require_size(x, unpack.c_str(), "x", static_cast<py::ssize_t>(packed_size(n, bits)));
        require_apart(x, y, unpack.c_str());
        const auto* from = static_cast<const uint8_t*>(x.data());
        auto* to = static_cast<Code*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        unpack_codes((active().*kernels).*unpack_kernel, from, to, n, bits, shared_pool());
      },
      py::arg("x"), py::arg("out"), "Unpacks as many codes as out holds.");
}

// The columns of x become rows of out, which may lie apart from each other.
void pack_columns(const py::array& x, py::array& y) {
  const char* where = "pack_columns_p4";
  require(x, where, "x", "uint8");
  require_dtype(y, where, "out", "uint8");
  require_writeable(y, where, "out");
  if (x.ndim() != 2 || x.shape(0) % 16) {
    throw py::value_error(std::string(where) + ": x: expected shape [K, N] with a multiple of 16 rows, got " +
                          shape_text(x));
  }
  const auto rows = static_cast<size_t>(x.shape(0)), columns = static_cast<size_t>(x.shape(1));
  if (y.ndim() != 2 || y.shape(0) != x.shape(1) || y.shape(1) * 2 != x.shape(0)) {
    throw py::value_error(std::string(where) + ": out: expected shape [N, K / 2] for x of " + shape_text(x) + ", got " +
                          shape_text(y));
  }
  if (!x.size()) return;
  const py::ssize_t pitch = columns > 1 ? y.strides(0) : y.shape(1);
  if (y.strides(1) != 1 || pitch < y.shape(1)) {
    throw py::value_error(std::string(where) + ": out: expected rows of contiguous bytes, got strides " +
                          text(y.attr("strides")) + " for shape " + shape_text(y));
  }
  const auto* from = static_cast<const uint8_t*>(x.data());
  auto* to = static_cast<uint8_t*>(y.mutable_data());
  const auto step = static_cast<size_t>(pitch);
  if (from < to + step * (columns - 1) + rows / 2 && to < from + rows * columns) {
    throw py::value_error(std::string(where) + ": out: expected memory apart from x, got arrays that overlap");
  }
  const py::gil_scoped_release release;  // only raw memory from here on
  pack_columns_p4(active(), from, rows, columns, to, step, shared_pool());
}

}  // namespace

void register_packing(py::module_& m) {
  constexpr PackKernels Kernels::* kWidths[] = {&Kernels::p2, &Kernels::p3, &Kernels::p4};
  for (size_t bits = 2; bits <= 4; ++bits) {
    def_packing<int8_t>(m, "i8", "int8", bits, kWidths[bits - 2], &PackKernels::pack_codes_i8,
                        &PackKernels::unpack_codes_i8);
    def_packing<uint8_t>(m, "u8", "uint8", bits, kWidths[bits - 2], &PackKernels::pack_codes_u8,
                         &PackKernels::unpack_codes_u8);
  }
  m.def("pack_columns_p4", pack_columns, py::arg("x"), py::arg("out"), "Packs the columns of x into the rows of out.");
}

}  // namespace quarkfast::python
