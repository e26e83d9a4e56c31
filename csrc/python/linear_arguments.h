// The arguments that quantizing functions share: layout, scale or shift, zero point and code range, checked.
#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "../linear.h"
#include "../numerics/types.h"
#include "array.h"

namespace quarkfast::python {

using Optional = std::optional<py::array>;
using Dims = std::array<size_t, 3>;  // outer, axis, inner

// block == 0 stands for one scale per index along the axis; a single scale for one per tensor.
inline ScaleLayout layout_of(const Dims& dims, size_t block, bool per_tensor) {
  if (per_tensor) return ScaleLayout::per_tensor(dims[0] * dims[1] * dims[2]);
  return block ? ScaleLayout::per_block(dims[0], dims[1], dims[2], block)
               : ScaleLayout::per_channel(dims[0], dims[1], dims[2]);
}

inline void require_scale(const py::array& scale, const std::string& where) {
  require(scale, where.c_str(), "scale", "float32");
  const auto* values = static_cast<const float*>(scale.data());
  const py::ssize_t n = scale.size();
  const auto is_good = [](float v) { return (v > 0) & (v <= std::numeric_limits<float>::max()); };
  // Without an early exit the loop vectorizes: small blocks come with as many scales as a kernel has time for.
  bool all_good = true;
  for (py::ssize_t i = 0; i < n; ++i) all_good &= is_good(values[i]);
  for (py::ssize_t i = 0; !all_good; ++i) {
    if (!is_good(values[i])) {
      throw py::value_error(where + ": scale: expected finite values > 0, got " + text(py::float_(values[i])) +
                            " at index " + std::to_string(i));
    }
  }
}

inline void require_shift(const py::array& shift, const std::string& where) {
  require(shift, where.c_str(), "shift", "int32");
  const auto* values = static_cast<const int32_t*>(shift.data());
  for (py::ssize_t i = 0; i < shift.size(); ++i) {
    if (values[i] < 0 || values[i] > 31) {
      throw py::value_error(where + ": shift: expected values in [0, 31], got " + std::to_string(values[i]) +
                            " at index " + std::to_string(i));
    }
  }
}

// One call's checked arguments.
template <class Q, class Factor = float>
struct Call {
  ScaleLayout layout;
  const Factor* scale;
  const Q* zero_point;
};

template <class Q, class Factor = float>
Call<Q, Factor> checked(const std::string& where, const char* dtype, const py::array& x, const py::array& y,
                        const Dims& dims, size_t block, const py::array& scale, const Optional& zero_point) {
  require_writeable(y, where.c_str(), "out");
  require_size(x, where.c_str(), "x", static_cast<py::ssize_t>(dims[0] * dims[1] * dims[2]));
  require_size(y, where.c_str(), "out", x.size());
  require_no_overlap(x, y, where.c_str());
  if constexpr (std::is_same_v<Factor, float>) {
    require_scale(scale, where);
  } else {
    require_shift(scale, where);
  }
  const ScaleLayout layout = layout_of(dims, block, scale.size() == 1 && scale.ndim() == 0);
  require_size(scale, where.c_str(), "scale", static_cast<py::ssize_t>(layout.scales()));
  const Q* zeros = nullptr;
  if (zero_point) {
    require(*zero_point, where.c_str(), "zero_point", dtype);
    require_size(*zero_point, where.c_str(), "zero_point", scale.size());
    zeros = static_cast<const Q*>(zero_point->data());
  }
  return {layout, static_cast<const Factor*>(scale.data()), zeros};
}

template <class Q, class Factor>
CodeRange checked_range(const std::string& where, int64_t qmin, int64_t qmax, const Call<Q, Factor>& call) {
  using Limits = CodeLimits<Q>;
  if (qmin > qmax || qmin < Limits::kMin || qmax > Limits::kMax) {
    throw py::value_error(where + ": range: expected " + std::to_string(Limits::kMin) +
                          " <= qmin <= qmax <= " + std::to_string(Limits::kMax) + ", got [" + std::to_string(qmin) +
                          ", " + std::to_string(qmax) + "]");
  }
  const bool whole_type = qmin == Limits::kMin && qmax == Limits::kMax;
  const size_t n = call.zero_point && !whole_type ? call.layout.scales() : 0;
  for (size_t i = 0; i < n; ++i) {
    const auto z = static_cast<int64_t>(code_of(call.zero_point[i]));
    if (z < qmin || z > qmax) {
      throw py::value_error(where + ": zero_point: expected values in [" + std::to_string(qmin) + ", " +
                            std::to_string(qmax) + "], got " + std::to_string(z) + " at index " + std::to_string(i));
    }
  }
  return {qmin, qmax};
}

}  // namespace quarkfast::python
