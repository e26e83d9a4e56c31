#include "python/statistics.h"

#include <array>
#include <iterator>

namespace quarkfast::python {

namespace {

using namespace py::literals;

template <size_t limbs>
py::int_ to_int(const LongInteger<limbs>& value) {
  const py::bytes bytes(reinterpret_cast<const char*>(value.limb.data()), sizeof(value.limb));
  return py::type::of(py::int_()).attr("from_bytes")(bytes, "little", "signed"_a = true);
}

template <size_t limbs>
LongInteger<limbs> long_integer(const py::handle& value) {
  LongInteger<limbs> result;
  const py::bytes bytes = py::int_(py::reinterpret_borrow<py::object>(value))
                              .attr("to_bytes")(sizeof(result.limb), "little", "signed"_a = true);
  std::memcpy(result.limb.data(), static_cast<std::string_view>(bytes).data(), sizeof(result.limb));
  return result;
}

}  // namespace

py::dict to_dict(const Range& r) {
  // Not made of named arguments, which take four times as long, and with names that are made once.
  static const auto& names =
      *new std::array<py::str, 8>{"min", "max", "count", "nan", "pos_inf", "neg_inf", "zero", "subnormal"};
  py::dict fields;
  fields[names[0]] = r.min;
  fields[names[1]] = r.max;
  const int64_t counts[] = {r.count, r.nan, r.pos_inf, r.neg_inf, r.zero, r.subnormal};
  for (size_t i = 0; i < std::size(counts); ++i) fields[names[i + 2]] = counts[i];
  return fields;
}

Range range_of(const py::dict& fields) {
  const auto integer = [&](const char* name) { return fields[name].cast<int64_t>(); };
  return {.min = fields["min"].cast<float>(),
          .max = fields["max"].cast<float>(),
          .count = integer("count"),
          .nan = integer("nan"),
          .pos_inf = integer("pos_inf"),
          .neg_inf = integer("neg_inf"),
          .zero = integer("zero"),
          .subnormal = integer("subnormal")};
}

py::tuple to_tuple(const Histogram& h) {
  py::array_t<uint64_t> counts(kHistogramBins);
  uint64_t* to = counts.mutable_data();
  std::memset(to, 0, kHistogramBins * sizeof(uint64_t));
  if (!h.counts.empty()) std::memcpy(to, h.counts.data(), kHistogramBins * sizeof(uint64_t));
  return py::make_tuple(counts, h.exponent);
}

Histogram histogram_of(const py::array& counts, int64_t exponent) {
  require(counts, "histogram", "counts", "uint64");
  require_size(counts, "histogram", "counts", kHistogramBins);
  if (exponent < kSmallestBinExponent || exponent > kLargestBinExponent) {
    throw py::value_error("histogram: exponent: expected a value from " + std::to_string(kSmallestBinExponent) +
                          " to " + std::to_string(kLargestBinExponent) + ", got " + std::to_string(exponent));
  }
  const auto* from = static_cast<const uint64_t*>(counts.data());
  return {.exponent = static_cast<int32_t>(exponent), .counts = {from, from + kHistogramBins}};
}

py::tuple to_tuple(const Extremes& e) {
  return py::make_tuple(e.observations, to_int(e.min), to_int(e.max));
}

Extremes extremes_of(const py::tuple& values) {
  return {
      .observations = values[0].cast<int64_t>(), .min = long_integer<6>(values[1]), .max = long_integer<6>(values[2])};
}

py::tuple to_tuple(const Moments& m) {
  return py::make_tuple(to_int(m.sum), to_int(m.squares));
}

Moments moments_of(const py::tuple& values) {
  return {.sum = long_integer<6>(values[0]), .squares = long_integer<10>(values[1])};
}

}  // namespace quarkfast::python
