// Linear quantization to and from each integer type and the 16-bit floats, any axis, any block.
#include "python/scaled.h"
#include "runtime/dispatch.h"
#include "tensor/linear.h"
#include "tensor/linear_float.h"

namespace quarkfast::python {

namespace {

// The three functions of integer type Q and float type X, and, of four bits, quantization with scales of either sign.
template <class Q, class X>
void def_linear(py::module_& m, const std::string& code, const char* dtype, const std::string& real,
                const char* real_dtype) {
  const ZeroPointType zero_point = integer_zero_points<Q>(dtype);
  def_scaled_to_range(m,
                      {.name = "quantize_linear_" + real + "_" + code,
                       .x = real_dtype,
                       .out = dtype,
                       .zero_point = zero_point,
                       .run = erased(quantize_linear<Q, X>)},
                      "Codes of x.");
  def_scaled(m,
             {.name = "dequantize_linear_" + code + "_" + real,
              .x = dtype,
              .out = real_dtype,
              .zero_point = zero_point,
              .run = erased(dequantize_linear<Q, X>)},
             "Values of the codes x.");
  def_scaled_to_range(m,
                      {.name = "fake_quantize_linear_" + real + "_" + code,
                       .x = real_dtype,
                       .out = real_dtype,
                       .zero_point = zero_point,
                       .run = erased(fake_quantize_linear<Q, X>)},
                      "x after quantization and dequantization.");
  if constexpr (std::is_same_v<Q, i4> || std::is_same_v<Q, u4>) {
    def_scaled_to_range(m,
                        {.name = "quantize_linear_mirrored_" + real + "_" + code,
                         .x = real_dtype,
                         .out = dtype,
                         .zero_point = zero_point,
                         .mirrored = true,
                         .run = erased(quantize_linear<Q, X>)},
                        "Codes of x, also for scales below zero.");
  }
}

template <class Q>
void def_linears(py::module_& m, const std::string& code, const char* dtype) {
  def_linear<Q, float>(m, code, dtype, "f32", "float32");
  def_linear<Q, f16>(m, code, dtype, "f16", "float16");
  def_linear<Q, bf16>(m, code, dtype, "bf16", "bfloat16");
}

// A function from X to Y, one of which is the 16-bit float F.
template <class F, class X, class Y>
void def_linear_float(py::module_& m, const std::string& name, const char* x, const char* out,
                      const ZeroPointType& zero_point,
                      void (*run)(const X*, Y*, const ScaleLayout&, const float*, const F*, const Pool&)) {
  def_scaled(m, {.name = name, .x = x, .out = out, .zero_point = zero_point, .run = erased(run)},
             "x divided by the scale or multiplied by it, rounded to a float.");
}

template <class F>
void def_linear_floats(py::module_& m, const std::string& code, const char* dtype,
                       double (*value)(const void*, size_t)) {
  const ZeroPointType zero_point{dtype, {}, nullptr, value};
  def_linear_float<F, float, F>(m, "quantize_float_f32_" + code, "float32", dtype, zero_point, quantize_float);
  def_linear_float<F, F, float>(m, "dequantize_float_" + code + "_f32", dtype, "float32", zero_point, dequantize_float);
}

template <class F, auto widen>
double widened(const void* data, size_t i) {
  float wide;
  (active().*widen)(static_cast<const F*>(data) + i, &wide, 1);
  return wide;
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
  def_linear_floats<f16>(m, "f16", "float16", widened<f16, &Kernels::cast_f16_f32>);
  def_linear_floats<bf16>(m, "bf16", "bfloat16", widened<bf16, &Kernels::cast_bf16_f32>);
}

}  // namespace quarkfast::python
