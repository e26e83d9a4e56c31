// Range estimation: from a histogram to the range of values to keep.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "python/statistics.h"
#include "ranges/entropy.h"
#include "ranges/percentile.h"
#include "ranges/spread.h"
#include "ranges/squared_error.h"

namespace quarkfast::python {

namespace {

void require_that(bool holds, const char* expected) {
  if (!holds) throw py::value_error(std::string("histogram: expected ") + expected + ", got other arguments");
}

// A view into the caller's array, which outlives it.
HistogramView histogram_view(const py::array& counts, int32_t exponent, const std::array<double, 2>& extremes,
                             uint64_t zero) {
  require(counts, "histogram", "counts", "uint64");
  require_size(counts, "histogram", "counts", kHistogramBins);
  require_that(exponent >= kSmallestBinExponent && exponent <= kLargestBinExponent, "an exponent from -126 to 117");
  const auto* values = static_cast<const uint64_t*>(counts.data());
  require_that(zero <= values[kHistogramSide], "no more zeros than the first positive bin holds");
  constexpr double kLargest = std::numeric_limits<float>::max();
  const bool empty = extremes[0] == HUGE_VAL && extremes[1] == -HUGE_VAL;
  require_that(empty || (extremes[0] >= -kLargest && extremes[0] <= extremes[1] && extremes[1] <= kLargest),
               "extremes in order and within float32, or infinite for no values");
  return {values, exponent, extremes[0], extremes[1], zero};
}

CodeRange codes_of(int64_t qmin, int64_t qmax) {
  require_that(qmin >= -(int64_t{1} << 31) && qmin < qmax && qmax < int64_t{1} << 32, "codes of 32 bits in order");
  return {qmin, qmax};
}

// Methods take up to milliseconds a tensor; without the interpreter's lock Python can work on several at once.
template <class Compute>
auto unlocked(Compute&& compute) {
  const py::gil_scoped_release release;
  return compute();
}

template <class Compute>
py::tuple range_tuple(Compute&& compute) {
  const ClippingRange range = unlocked(compute);
  return py::make_tuple(range.low, range.high);
}

}  // namespace

void register_ranges(py::module_& m) {
  m.def(
      "percentile_range",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, double percentile,
         bool symmetric) {
        require_that(percentile >= 0 && percentile <= 100, "a percentile from 0 to 100");
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        return range_tuple([&] { return percentile_range(view, percentile, symmetric); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("percentile"),
      py::arg("symmetric"));
  m.def(
      "entropy_range",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, int32_t levels) {
        require_that(levels >= 2 && levels <= kHistogramSide, "2 to 2048 levels");
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        return range_tuple([&] { return entropy_range(view, levels); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("levels"));
  m.def(
      "entropy_window_range",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, int32_t bins,
         int32_t levels) {
        require_that(levels >= 2 && levels <= bins && bins <= kHistogramBins && (bins & (bins - 1)) == 0,
                     "2 levels or more and a power of two of bins from there to 4096");
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        return range_tuple([&] { return entropy_window_range(view, bins, levels); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("bins"), py::arg("levels"));
  m.def(
      "least_error_range",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, int64_t qmin,
         int64_t qmax, bool symmetric) {
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        const CodeRange codes = codes_of(qmin, qmax);
        return range_tuple([&] { return least_error_range(view, codes, symmetric); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("qmin"), py::arg("qmax"),
      py::arg("symmetric"));
  m.def(
      "power_of_two_range",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, int64_t qmin,
         int64_t qmax, bool symmetric, int count) {
        require_that(count >= 1 && count <= 32, "1 to 32 candidates");
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        const CodeRange codes = codes_of(qmin, qmax);
        return range_tuple([&] { return power_of_two_range(view, codes, symmetric, count); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("qmin"), py::arg("qmax"),
      py::arg("symmetric"), py::arg("count"));
  m.def(
      "quantization_error",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, double scale,
         int64_t zero_point, int64_t qmin, int64_t qmax) {
        const CodeRange codes = codes_of(qmin, qmax);
        require_that(scale >= 0x1p-149 && scale < 0x1p128, "a scale within float32 and > 0");
        require_that(zero_point >= qmin && zero_point <= qmax, "a zero point among the codes");
        const HistogramView view = histogram_view(counts, exponent, extremes, zero);
        return unlocked([&] { return QuantizationError(view)({scale, zero_point}, codes); });
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("scale"),
      py::arg("zero_point"), py::arg("qmin"), py::arg("qmax"));
  m.def(
      "spread",
      [](const py::array& counts, int32_t exponent, std::array<double, 2> extremes, uint64_t zero, int root) {
        const Spread found = spread(histogram_view(counts, exponent, extremes, zero), root);
        return py::make_tuple(found.mean, found.deviation);
      },
      py::arg("counts"), py::arg("exponent"), py::arg("extremes"), py::arg("zero"), py::arg("root"));
}

}  // namespace quarkfast::python
