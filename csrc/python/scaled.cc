#include "python/scaled.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "python/array.h"
#include "python/output.h"

namespace quarkfast::python {

namespace {

using Limit = std::optional<int64_t>;

// An argument of scales or zero points: an array, or one number that lies here.
struct Operand {
  const void* data = nullptr;  // null where there is none
  py::ssize_t size = 1;
  Shape shape;
  alignas(8) unsigned char number[8] = {};

  Operand() = default;
  Operand(const Operand&) = delete;  // data may point into it
  bool is_one() const { return size == 1 && shape.size() <= 1; }
};

// Each read_ returns false where the argument is not as it is read here.

bool read_array(const py::object& given, const char* dtype, Operand& to) {
  const auto array = py::reinterpret_borrow<py::array>(given);
  if (!has_dtype(array, dtype) || !is_laid_out(array)) return false;
  to.data = array.data();
  to.size = array.size();
  to.shape = shape_of(array);
  return true;
}

bool is_numpy_scalar(const py::object& given, const char* dtype) {
  const char* name = Py_TYPE(given.ptr())->tp_name;
  return std::strncmp(name, "numpy.", 6) == 0 && std::strcmp(name + 6, dtype) == 0;
}

bool read_integer(const py::object& given, int64_t& to) {
  if (!PyLong_CheckExact(given.ptr())) return false;
  int overflow = 0;
  to = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
  return !overflow;
}

bool read_factor(const py::object& given, const char* dtype, Operand& to) {
  if (py::isinstance<py::array>(given)) return read_array(given, dtype, to);
  if (std::strcmp(dtype, "float32") != 0) return false;
  if (!PyFloat_Check(given.ptr()) && !is_numpy_scalar(given, dtype)) return false;
  const auto number = static_cast<float>(PyFloat_AsDouble(given.ptr()));
  std::memcpy(to.number, &number, sizeof number);
  to.data = to.number;
  return true;
}

bool read_zero_point(const py::object& given, const ZeroPointType& type, Operand& to) {
  if (given.is_none()) return true;
  if (py::isinstance<py::array>(given)) return read_array(given, type.dtype, to);
  if (!type.store) return false;
  int64_t code = 0;
  if (!(is_numpy_scalar(given, type.dtype) ? read_integer(py::int_(given), code) : read_integer(given, code)) ||
      code < type.limits.qmin || code > type.limits.qmax) {
    return false;
  }
  type.store(code, to.number);
  to.data = to.number;
  return true;
}

[[noreturn]] void refuse(const ScaledKernel& kernel, const std::string& rest) {
  throw py::value_error(kernel.name + ": " + rest);
}

void require_shape(const ScaledKernel& kernel, const Operand& factor, Shape expected) {
  if (std::ranges::equal(factor.shape, expected)) return;
  refuse(kernel,
         std::string(kernel.factor) + ": expected shape " + shape_text(expected) + ", got " + shape_text(factor.shape));
}

// The rule of shapes: one scale, or one for each index along the axis, or one for each block.
ScaleLayout layout_of(const ScaledKernel& kernel, const py::array& x, const Operand& factor, const Operand& zero_point,
                      int64_t axis, int64_t block) {
  if (zero_point.data && !std::ranges::equal(zero_point.shape, factor.shape) &&
      !(zero_point.is_one() && factor.is_one())) {
    refuse(kernel, "zero_point: expected shape " + shape_text(factor.shape) + " as of " + kernel.factor + ", got " +
                       shape_text(zero_point.shape));
  }
  if (block < 0) refuse(kernel, "block_size: expected 0 or a positive integer, got " + std::to_string(block));
  const Shape shape = shape_of(x);
  const auto rank = static_cast<int64_t>(shape.size());
  if (!block && factor.is_one()) return ScaleLayout::per_tensor(static_cast<size_t>(x.size()));
  if (axis < -rank || axis >= rank) {
    refuse(kernel,
           "axis: expected an axis of a tensor of rank " + std::to_string(rank) + ", got " + std::to_string(axis));
  }
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const auto product = [](Shape sizes) {
    size_t n = 1;
    for (const py::ssize_t size : sizes) n *= static_cast<size_t>(size);
    return n;
  };
  const size_t outer = product(shape.first(at)), inner = product(shape.subspan(at + 1));
  const auto length = static_cast<size_t>(shape[at]);
  if (!block) {
    require_shape(kernel, factor, shape.subspan(at, 1));
    return ScaleLayout::per_channel(outer, length, inner);
  }
  std::vector<py::ssize_t> blocks(shape.begin(), shape.end());
  blocks[at] = shape[at] / block + (shape[at] % block != 0);
  require_shape(kernel, factor, blocks);
  return ScaleLayout::per_block(outer, length, inner, static_cast<size_t>(block));
}

// Calls good(value) for all n values and throws at the first that is not. Without an early exit the loop vectorizes:
// small blocks come with as many scales as a kernel has time for.
template <class T, class Good>
void require_each(const ScaledKernel& kernel, const Operand& factor, const char* expected, Good good) {
  const auto* values = static_cast<const T*>(factor.data);
  bool all_good = true;
  for (py::ssize_t i = 0; i < factor.size; ++i) all_good &= good(values[i]);
  for (py::ssize_t i = 0; !all_good; ++i) {
    if (good(values[i])) continue;
    refuse(kernel, std::string(kernel.factor) + ": expected " + expected + ", got " + text(py::cast(values[i])) +
                       " at index " + std::to_string(i));
  }
}

void require_factors(const ScaledKernel& kernel, const Operand& factor) {
  if (kernel.mirrored) {
    require_each<float>(kernel, factor, "finite values other than 0",
                        [](float v) { return (v != 0) & (std::abs(v) <= std::numeric_limits<float>::max()); });
  } else if (std::strcmp(kernel.factor, "scale") == 0) {
    require_each<float>(kernel, factor, "finite values > 0",
                        [](float v) { return (v > 0) & (v <= std::numeric_limits<float>::max()); });
  } else {
    require_each<int32_t>(kernel, factor, "values in [0, 31]", [](int32_t v) { return (v >= 0) & (v <= 31); });
  }
}

void require_finite(const ScaledKernel& kernel, const Operand& zero_point) {
  for (size_t i = 0; zero_point.data && i < static_cast<size_t>(zero_point.size); ++i) {
    const double value = kernel.zero_point.value(zero_point.data, i);
    if (!std::isfinite(value)) refuse(kernel, "zero_point: expected finite values, got " + text(py::float_(value)));
  }
}

CodeRange checked_range(const ScaledKernel& kernel, Limit qmin, Limit qmax, const Operand& zero_point) {
  const CodeRange limits = kernel.zero_point.limits;
  const CodeRange range{qmin.value_or(limits.qmin), qmax.value_or(limits.qmax)};
  const auto shown = [](CodeRange r) {
    return std::string("[") + std::to_string(r.qmin) + ", " + std::to_string(r.qmax) + "]";
  };
  if (range.qmin > range.qmax || range.qmin < limits.qmin || range.qmax > limits.qmax) {
    refuse(kernel, "range: expected " + std::to_string(limits.qmin) +
                       " <= qmin <= qmax <= " + std::to_string(limits.qmax) + ", got " + shown(range));
  }
  const bool whole_type = range.qmin == limits.qmin && range.qmax == limits.qmax;
  const py::ssize_t n = zero_point.data && !whole_type ? zero_point.size : 0;
  for (py::ssize_t i = 0; i < n; ++i) {
    const auto code = static_cast<int64_t>(kernel.zero_point.value(zero_point.data, static_cast<size_t>(i)));
    if (code < range.qmin || code > range.qmax) {
      refuse(kernel, "zero_point: expected values in " + shown(range) + ", got " + std::to_string(code) + " at index " +
                         std::to_string(i));
    }
  }
  return range;
}

struct ScaledCall {
  ScaledKernel kernel;
  py::dtype made;

  py::object operator()(const py::array& given, const py::object& out, const py::object& factor,
                        const py::object& zero_point, const py::object& axis, const py::object& block_size, Limit qmin,
                        Limit qmax) const {
    Operand factors, zeros;
    int64_t along = 0, block = 0;
    if (!read_factor(factor, kernel.factor == std::string_view("scale") ? "float32" : "int32", factors) ||
        !read_zero_point(zero_point, kernel.zero_point, zeros) || !read_integer(axis, along) ||
        !read_integer(block_size, block)) {
      return py::none();
    }
    const char* where = kernel.name.c_str();
    require_dtype(given, where, "x", kernel.x);
    const py::array x = laid_out(given);
    const ScaleLayout layout = layout_of(kernel, x, factors, zeros, along, block);
    py::array y = output_like(x, out, where, made);
    require_factors(kernel, factors);
    CodeRange range{};
    if (kernel.zero_point.store) {
      range = checked_range(kernel, qmin, qmax, zeros);
    } else {
      require_finite(kernel, zeros);
    }
    const void* from = x.data();
    void* to = y.mutable_data();
    {
      const py::gil_scoped_release release;  // only raw memory from here on
      kernel.run(from, to, layout, factors.data, zeros.data, range, shared_pool());
    }
    return y;
  }
};

}  // namespace

void def_scaled(py::module_& m, ScaledKernel kernel, const char* doc) {
  const char *made = kernel.out, *factor = kernel.factor;
  m.def(
      kernel.name.c_str(),
      [call = ScaledCall{kernel, dtype_named(made)}](const py::array& x, const py::object& out, const py::object& scale,
                                                     const py::object& zero_point, const py::object& axis,
                                                     const py::object& block_size) {
        return call(x, out, scale, zero_point, axis, block_size, {}, {});
      },
      py::arg("x"), py::arg("out"), py::arg(factor), py::arg("zero_point"), py::arg("axis"), py::arg("block_size"),
      doc);
}

void def_scaled_to_range(py::module_& m, ScaledKernel kernel, const char* doc) {
  const char *made = kernel.out, *factor = kernel.factor;
  m.def(kernel.name.c_str(), ScaledCall{kernel, dtype_named(made)}, py::arg("x"), py::arg("out"), py::arg(factor),
        py::arg("zero_point"), py::arg("axis"), py::arg("block_size"), py::arg("qmin"), py::arg("qmax"), doc);
}

}  // namespace quarkfast::python
