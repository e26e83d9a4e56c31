// Statistics of single arrays.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <mutex>

#include "python/statistics.h"
#include "stats/absmax.h"
#include "tensor/extremes.h"

namespace quarkfast::python {

namespace {

template <class T>
Statistics gathered(const char* where, const py::array& given, Gather gather) {
  require_dtype(given, where, "x", FloatType<T>::dtype);
  const py::array x = laid_out(given);
  const auto* data = static_cast<const T*>(x.data());
  const auto n = static_cast<size_t>(x.size());
  const py::gil_scoped_release release;  // only raw memory from here on
  Statistics result;
  std::mutex mutex;
  observe(data, n, gather, result, mutex, shared_pool());
  return result;
}

// Of dims (outer, length, inner), for each index of the middle one, or for each block of so many of them where `block`
// is not 0.
template <class T>
py::tuple extremes(const char* where, const py::array& given, const std::array<size_t, 3>& dims, size_t block) {
  require_dtype(given, where, "x", FloatType<T>::dtype);
  const py::array x = laid_out(given);
  const auto [outer, length, inner] = dims;
  require_size(x, where, "x", static_cast<py::ssize_t>(outer * length * inner));
  if (!x.size()) throw py::value_error(std::string(where) + ": x: expected one value or more, got none");
  const ScaleLayout layout = block ? ScaleLayout::per_block(outer, length, inner, std::min(block, length))
                                   : ScaleLayout::per_channel(outer, length, inner);
  const std::array scales{static_cast<py::ssize_t>(layout.scales())};
  py::array low(x.dtype(), scales), high(x.dtype(), scales);
  const auto* from = static_cast<const T*>(x.data());
  auto *least = static_cast<T*>(low.mutable_data()), *most = static_cast<T*>(high.mutable_data());
  {
    const py::gil_scoped_release release;  // only raw memory from here on
    reduce_extremes(from, layout, least, most, shared_pool());
  }
  return py::make_tuple(low, high);
}

template <class T>
void register_type(py::module_& m) {
  const auto named = [](const char* verb) { return std::string(verb) + FloatType<T>::code; };
  const std::string range = named("reduce_range_"), histogram = named("count_histogram_"),
                    moments = named("sum_moments_"), absmax = named("reduce_absmax_"),
                    least_and_most = named("reduce_extremes_");
  m.def(
      range.c_str(), [range](const py::array& x) { return to_dict(gathered<T>(range.c_str(), x, {}).range); },
      py::arg("x"), "Extremes of the finite values and counts of the special ones.");
  m.def(
      histogram.c_str(),
      [histogram](const py::array& x) {
        const Statistics s = gathered<T>(histogram.c_str(), x, {.histogram = true});
        return py::make_tuple(to_dict(s.range), to_tuple(s.histogram));
      },
      py::arg("x"), "The range, and the dyadic histogram as (counts, exponent).");
  m.def(
      moments.c_str(),
      [moments](const py::array& x) {
        const Statistics s = gathered<T>(moments.c_str(), x, {.moments = true});
        return py::make_tuple(to_dict(s.range), to_tuple(s.moments));
      },
      py::arg("x"), "The range, and the exact sums of values in 2^-149 and of squares in 2^-298.");
  m.def(
      absmax.c_str(),
      [absmax](const py::array& given, const std::array<size_t, 3>& dims) {
        require_dtype(given, absmax.c_str(), "x", FloatType<T>::dtype);
        const py::array x = laid_out(given);
        require_size(x, absmax.c_str(), "x", static_cast<py::ssize_t>(dims[0] * dims[1] * dims[2]));
        py::array_t<float> top(static_cast<py::ssize_t>(dims[1]));
        float* to = top.mutable_data();
        std::fill_n(to, dims[1], 0.0f);
        const auto* data = static_cast<const T*>(x.data());
        {
          const py::gil_scoped_release release;  // only raw memory from here on
          reduce_absmax(data, dims[0], dims[1], dims[2], to, shared_pool());
        }
        return top;
      },
      py::arg("x"), py::arg("dims"), "Largest finite magnitude of each channel; dims is (outer, channels, inner).");
  m.def(
      least_and_most.c_str(),
      [least_and_most](const py::array& x, const std::array<size_t, 3>& dims, size_t block) {
        return extremes<T>(least_and_most.c_str(), x, dims, block);
      },
      py::arg("x"), py::arg("dims"), py::arg("block"),
      "Least and greatest values of each index, or of each block, of the middle one of dims.");
}

}  // namespace

void register_stats(py::module_& m) {
  register_type<float>(m);
  register_type<f16>(m);
  register_type<bf16>(m);
}

}  // namespace quarkfast::python
