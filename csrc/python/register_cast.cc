// Casts between float32 and the 16-bit floats.
#include <pybind11/pybind11.h>

#include "../dispatch.h"
#include "../elementwise.h"
#include "array.h"

namespace quarkfast::python {

namespace {

// Binds a kernel f(x, y, n) under its own name; x and y are arrays of the given dtypes and of equal size.
template <class In, class Out>
void def_elementwise(py::module_& m, const char* name, void (*const Kernels::*kernel)(const In*, Out*, size_t),
                     const char* in, const char* out, const char* doc) {
  m.def(
      name,
      [=](const py::array& x, py::array& y) {
        require(x, name, "x", in);
        require(y, name, "out", out);
        require_writeable(y, name, "out");
        require_size(y, name, "out", x.size());
        require_no_overlap(x, y, name);
        const auto* from = static_cast<const In*>(x.data());
        auto* to = static_cast<Out*>(y.mutable_data());
        const auto n = static_cast<size_t>(x.size());
        const py::gil_scoped_release release;  // only raw memory from here on; the caller's references keep it alive
        elementwise(active().*kernel, from, to, n, openmp_pool());
      },
      py::arg("x"), py::arg("out"), doc);
}

}  // namespace

void register_cast(py::module_& m) {
  def_elementwise<float, bf16>(m, "cast_f32_bf16", &Kernels::cast_f32_bf16, "float32", "bfloat16",
                               "float32 -> bfloat16.");
  def_elementwise<bf16, float>(m, "cast_bf16_f32", &Kernels::cast_bf16_f32, "bfloat16", "float32",
                               "bfloat16 -> float32.");
  def_elementwise<float, float>(m, "round_f32_bf16", &Kernels::round_f32_bf16, "float32", "float32",
                                "float32 -> bfloat16 -> float32.");
  def_elementwise<float, f16>(m, "cast_f32_f16", &Kernels::cast_f32_f16, "float32", "float16", "float32 -> float16.");
  def_elementwise<f16, float>(m, "cast_f16_f32", &Kernels::cast_f16_f32, "float16", "float32", "float16 -> float32.");
  def_elementwise<float, float>(m, "round_f32_f16", &Kernels::round_f32_f16, "float32", "float32",
                                "float32 -> float16 -> float32.");
}

}  // namespace quarkfast::python
