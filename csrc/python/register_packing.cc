// Packing of 2-, 3- and 4-bit codes.
#include <pybind11/pybind11.h>

#include "../dispatch.h"
#include "../packing.h"
#include "array.h"

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
      py::arg("x"), py::arg("out"), "Packs codes; tells whether all of them fit.");

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

}  // namespace

void register_packing(py::module_& m) {
  constexpr PackKernels Kernels::* kWidths[] = {&Kernels::p2, &Kernels::p3, &Kernels::p4};
  for (size_t bits = 2; bits <= 4; ++bits) {
    def_packing<int8_t>(m, "i8", "int8", bits, kWidths[bits - 2], &PackKernels::pack_codes_i8,
                        &PackKernels::unpack_codes_i8);
    def_packing<uint8_t>(m, "u8", "uint8", bits, kWidths[bits - 2], &PackKernels::pack_codes_u8,
                         &PackKernels::unpack_codes_u8);
  }
}

}  // namespace quarkfast::python
