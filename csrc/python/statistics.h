// Statistics as Python objects: dicts, tuples, arrays and whole numbers, all exact.
#pragma once

#include <pybind11/numpy.h>

#include <cstring>
#include <string>

#include "python/array.h"
#include "stats/statistics.h"

namespace quarkfast::python {

// Names of the float types that statistics read, as NumPy and in kernels.
template <class T>
struct FloatType;
template <>
struct FloatType<float> {
  static constexpr const char *dtype = "float32", *code = "f32";
};
template <>
struct FloatType<f16> {
  static constexpr const char *dtype = "float16", *code = "f16";
};
template <>
struct FloatType<bf16> {
  static constexpr const char *dtype = "bfloat16", *code = "bf16";
};

py::dict to_dict(const Range& r);
Range range_of(const py::dict& fields);

// (counts, exponent of the bin width); counts are uint64, kHistogramBins of them.
py::tuple to_tuple(const Histogram& h);
Histogram histogram_of(const py::array& counts, int64_t exponent);

// (observations, sum of minima, sum of maxima); sums in units of 2^-149.
py::tuple to_tuple(const Extremes& e);
Extremes extremes_of(const py::tuple& values);

// (sum in units of 2^-149, sum of squares in units of 2^-298).
py::tuple to_tuple(const Moments& m);
Moments moments_of(const py::tuple& values);

}  // namespace quarkfast::python
