// Casts between float32 and the floats of 16 bits and fewer.
#include <pybind11/pybind11.h>

#include <string>

#include "python/array.h"
#include "python/output.h"
#include "runtime/dispatch.h"
#include "tensor/elementwise.h"

namespace quarkfast::python {

namespace {

// Binds a kernel f(x, y, n), which get(Kernels) finds, under its name: x of any layout, out of the same shape or None;
// returns the result.
template <class In, class Out, class Get>
void def_elementwise(py::module_& m, const std::string& name, Get get, const char* in, const char* out) {
  const std::string doc = std::string(in) + " -> " + out + "; out may be None.";
  m.def(
      name.c_str(),
      [=, made = dtype_named(out)](const py::array& given, const py::object& result) {
        const char* where = name.c_str();
        require_dtype(given, where, "x", in);
        const py::array x = laid_out(given);
        py::array y = output_like(x, result, where, made);
        const auto* from = static_cast<const In*>(x.data());
        auto* to = static_cast<Out*>(y.mutable_data());
        const auto n = static_cast<size_t>(x.size());
        {
          const py::gil_scoped_release release;  // only raw memory from here on
          elementwise(get(active()), from, to, n, shared_pool());
        }
        return y;
      },
      py::arg("x"), py::arg("out"), doc.c_str());
}

// The five kernels of a 16-bit float.
template <class T>
void def_half(py::module_& m, const std::string& code, const char* dtype,
              void (*Kernels::*down)(const float*, T*, size_t), void (*Kernels::*saturate)(const float*, T*, size_t),
              void (*Kernels::*up)(const T*, float*, size_t),
              void (*Kernels::*round_trip)(const float*, float*, size_t),
              void (*Kernels::*saturate_round_trip)(const float*, float*, size_t)) {
  def_elementwise<float, T>(m, "cast_f32_" + code, [=](const Kernels& k) { return k.*down; }, "float32", dtype);
  def_elementwise<float, T>(m, "saturate_f32_" + code, [=](const Kernels& k) { return k.*saturate; }, "float32", dtype);
  def_elementwise<T, float>(m, "cast_" + code + "_f32", [=](const Kernels& k) { return k.*up; }, dtype, "float32");
  def_elementwise<float, float>(
      m, "round_trip_f32_" + code, [=](const Kernels& k) { return k.*round_trip; }, "float32", "float32");
  def_elementwise<float, float>(
      m, "saturate_round_trip_f32_" + code, [=](const Kernels& k) { return k.*saturate_round_trip; }, "float32",
      "float32");
}

// The five kernels of a float of 8 bits or fewer.
template <class T>
void def_small(py::module_& m, const std::string& code, const char* dtype, SmallFloatKernels<T> Kernels::* family) {
  def_elementwise<float, T>(
      m, "cast_f32_" + code, [=](const Kernels& k) { return (k.*family).cast_from_f32; }, "float32", dtype);
  def_elementwise<float, T>(
      m, "saturate_f32_" + code, [=](const Kernels& k) { return (k.*family).saturate_from_f32; }, "float32", dtype);
  def_elementwise<T, float>(
      m, "cast_" + code + "_f32", [=](const Kernels& k) { return (k.*family).cast_to_f32; }, dtype, "float32");
  def_elementwise<float, float>(
      m, "round_trip_f32_" + code, [=](const Kernels& k) { return (k.*family).round_trip_f32; }, "float32", "float32");
  def_elementwise<float, float>(
      m, "saturate_round_trip_f32_" + code, [=](const Kernels& k) { return (k.*family).saturate_round_trip_f32; },
      "float32", "float32");
}

}  // namespace

void register_cast(py::module_& m) {
  using K = Kernels;
  def_half<bf16>(m, "bf16", "bfloat16", &K::cast_f32_bf16, &K::saturate_f32_bf16, &K::cast_bf16_f32,
                 &K::round_trip_f32_bf16, &K::saturate_round_trip_f32_bf16);
  def_half<f16>(m, "f16", "float16", &K::cast_f32_f16, &K::saturate_f32_f16, &K::cast_f16_f32, &K::round_trip_f32_f16,
                &K::saturate_round_trip_f32_f16);
  def_small(m, "e4m3fn", "float8_e4m3fn", &K::e4m3fn);
  def_small(m, "e5m2", "float8_e5m2", &K::e5m2);
  def_small(m, "e4m3fnuz", "float8_e4m3fnuz", &K::e4m3fnuz);
  def_small(m, "e5m2fnuz", "float8_e5m2fnuz", &K::e5m2fnuz);
  def_small(m, "e3m2fn", "float6_e3m2fn", &K::e3m2fn);
  def_small(m, "e2m3fn", "float6_e2m3fn", &K::e2m3fn);
  def_small(m, "e2m1fn", "float4_e2m1fn", &K::e2m1fn);
  def_small(m, "e8m0fnu", "float8_e8m0fnu", &K::e8m0fnu);
}

}  // namespace quarkfast::python
