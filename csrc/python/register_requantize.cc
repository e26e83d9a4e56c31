// Requantization of 32-bit sums to 8-bit codes, by a scale or by a shift.
#include "python/scaled.h"
#include "tensor/requantize.h"

namespace quarkfast::python {

namespace {

template <class Q, HalfRounding rounding>
void shift(const int32_t* x, Q* y, const ScaleLayout& layout, const int32_t* by, const Q* zero_point, CodeRange range,
           const Pool& pool) {
  requantize_shift<Q>(x, y, layout, by, zero_point, range, rounding, pool);
}

template <class Q>
void def_requantizes(py::module_& m, const std::string& code, const char* dtype) {
  const auto def = [&](const std::string& verb, const char* factor, ScaledRun run) {
    def_scaled_to_range(m,
                        {.name = verb + "_i32_" + code,
                         .x = "int32",
                         .out = dtype,
                         .zero_point = integer_zero_points<Q>(dtype),
                         .factor = factor,
                         .run = std::move(run)},
                        "8-bit codes of 32-bit sums.");
  };
  def("requantize_linear", "scale", erased(requantize_linear<Q>));
  def("requantize_shift_half_up", "shift", erased(shift<Q, HalfRounding::kUp>));
  def("requantize_shift_half_even", "shift", erased(shift<Q, HalfRounding::kEven>));
}

}  // namespace

void register_requantize(py::module_& m) {
  def_requantizes<int8_t>(m, "i8", "int8");
  def_requantizes<uint8_t>(m, "u8", "uint8");
}

}  // namespace quarkfast::python
