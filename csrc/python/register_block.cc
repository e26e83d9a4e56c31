// Block formats: their choices as checked objects, and the functions that take them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "python/array.h"
#include "tensor/block.h"

namespace quarkfast::python {

namespace {

using Dims = std::array<size_t, 3>;  // outer, axis, inner

constexpr int32_t kSignAndExponent = 9;  // Quark's bit_width counts sign, exponent and mantissa of one element

template <class P>
P checked(const char* where, const P& p) {
  const std::string wrong = fault(p);
  if (!wrong.empty()) throw py::value_error(std::string(where) + ": " + wrong);
  return p;
}

template <class P>
void require_storable(const std::string& where, const P& p) {
  const std::string wrong = storage_fault(p);
  if (!wrong.empty()) throw py::value_error(where + ": " + wrong);
}

size_t positive(const char* where, const char* attribute, int64_t value) {
  if (value > 0) return static_cast<size_t>(value);
  throw py::value_error(std::string(where) + ": " + attribute + ": expected a positive integer, got " +
                        std::to_string(value));
}

int32_t mantissa_bits(const char* where, int32_t bit_width) {
  return static_cast<int32_t>(positive(where, "bit_width", bit_width)) - kSignAndExponent;
}

BfpParams bfp(int64_t block, int32_t bit_width, int32_t rounding, bool raise_exponent) {
  return checked("bfp", BfpParams{positive("bfp", "block_size", block), mantissa_bits("bfp", bit_width),
                                  static_cast<Rounding>(rounding), raise_exponent});
}

BfpPrimeParams bfp_prime(int64_t block, int64_t sub_block, int32_t shift_bits, int32_t bit_width, int32_t rounding) {
  return checked("bfp_prime", BfpPrimeParams{positive("bfp_prime", "block_size", block),
                                             positive("bfp_prime", "sub_block_size", sub_block), shift_bits,
                                             mantissa_bits("bfp_prime", bit_width), static_cast<Rounding>(rounding)});
}

MxParams mx(int64_t block, const std::string& element, int32_t rounding, bool ocp) {
  MxParams p{positive("mx", "block_size", block), MxElement::kInt8, static_cast<Rounding>(rounding),
             ocp ? MxRule::kOcp : MxRule::kQuark};
  if (!parse(element, p.element)) {
    throw py::value_error(
        "mx: element_dtype: expected fp8_e5m2, fp8_e4m3, fp6_e3m2, fp6_e2m3, fp4_e2m1 or int8, got '" + element + "'");
  }
  return checked("mx", p);
}

template <class P, class T>
void def_fake_quantize(py::module_& m, const std::string& name, const char* dtype) {
  m.def(
      name.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, const P& p) {
        const char* where = name.c_str();
        require(x, where, "x", dtype);
        require(y, where, "out", dtype);
        require_writeable(y, where, "out");
        const BlockLayout layout{dims[0], dims[1], dims[2]};
        require_size(x, where, "x", static_cast<py::ssize_t>(layout.size()));
        require_size(y, where, "out", x.size());
        require_no_overlap(x, y, where);
        const auto* from = static_cast<const T*>(x.data());
        auto* to = static_cast<T*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        fake_quantize_blocks(from, to, layout, p, shared_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("format"), "x after quantization and dequantization.");
}

template <class P>
void def_storage(py::module_& m, const std::string& family) {
  const auto records = [](const BlockLayout& layout, const P& p) {
    return static_cast<py::ssize_t>(layout.lines() * layout.blocks_per_line(p.block) * record_bytes(p));
  };
  const std::string quantize = "quantize_" + family + "_f32";
  m.def(
      quantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, const P& p) {
        require(x, quantize.c_str(), "x", "float32");
        require(y, quantize.c_str(), "out", "uint8");
        require_writeable(y, quantize.c_str(), "out");
        require_storable(quantize, p);
        const BlockLayout layout{dims[0], dims[1], dims[2]};
        require_size(x, quantize.c_str(), "x", static_cast<py::ssize_t>(layout.size()));
        require_size(y, quantize.c_str(), "out", records(layout, p));
        require_no_overlap(x, y, quantize.c_str());
        const auto* from = static_cast<const float*>(x.data());
        auto* to = static_cast<uint8_t*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        quantize_blocks(from, to, layout, p, shared_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("format"), "Records of x seen as [outer, axis, inner].");

  const std::string dequantize = "dequantize_" + family + "_f32";
  m.def(
      dequantize.c_str(),
      [=](const py::array& x, py::array& y, const Dims& dims, const P& p) {
        require(x, dequantize.c_str(), "x", "uint8");
        require(y, dequantize.c_str(), "out", "float32");
        require_writeable(y, dequantize.c_str(), "out");
        require_storable(dequantize, p);
        const BlockLayout layout{dims[0], dims[1], dims[2]};
        require_size(x, dequantize.c_str(), "x", records(layout, p));
        require_size(y, dequantize.c_str(), "out", static_cast<py::ssize_t>(layout.size()));
        require_no_overlap(x, y, dequantize.c_str());
        const auto* from = static_cast<const uint8_t*>(x.data());
        auto* to = static_cast<float*>(y.mutable_data());
        const py::gil_scoped_release release;  // only raw memory from here on
        dequantize_blocks(from, to, layout, p, shared_pool());
      },
      py::arg("x"), py::arg("out"), py::arg("dims"), py::arg("format"), "Values of records.");
}

template <class P>
void def_family(py::module_& m, const std::string& family) {
  def_fake_quantize<P, float>(m, "fake_quantize_" + family + "_f32", "float32");
  def_fake_quantize<P, f16>(m, "fake_quantize_" + family + "_f16", "float16");
  def_fake_quantize<P, bf16>(m, "fake_quantize_" + family + "_bf16", "bfloat16");
  def_storage<P>(m, family);
}

}  // namespace

void register_block(py::module_& m) {
  py::class_<BfpParams>(m, "Bfp", "Choices of block floating point.")
      .def(py::init(&bfp), py::arg("block_size"), py::arg("bit_width"), py::arg("rounding"), py::arg("raise_exponent"))
      .def_property_readonly("record_bytes", [](const BfpParams& p) { return record_bytes(p); });
  py::class_<BfpPrimeParams>(m, "BfpPrime", "Choices of block floating point with shared micro-exponents.")
      .def(py::init(&bfp_prime), py::arg("block_size"), py::arg("sub_block_size"), py::arg("shift_bits"),
           py::arg("bit_width"), py::arg("rounding"))
      .def_property_readonly("record_bytes", [](const BfpPrimeParams& p) { return record_bytes(p); });
  py::class_<MxParams>(m, "Mx", "Choices of an OCP microscaling format.")
      .def(py::init(&mx), py::arg("block_size"), py::arg("element"), py::arg("rounding"), py::arg("ocp"))
      .def_property_readonly("record_bytes", [](const MxParams& p) { return record_bytes(p); });
  def_family<BfpParams>(m, "bfp");
  def_family<BfpPrimeParams>(m, "bfp_prime");
  def_family<MxParams>(m, "mx");
}

}  // namespace quarkfast::python
