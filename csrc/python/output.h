// The array that a kernel writes to: the caller's, or a new one.
#pragma once

#include <span>
#include <string>

#include "python/array.h"

namespace quarkfast::python {

using Shape = std::span<const py::ssize_t>;

inline Shape shape_of(const py::array& array) {
  return {array.shape(), static_cast<size_t>(array.ndim())};
}

// As Python writes a tuple.
std::string shape_text(Shape shape);

// The dtype of this name, one of NumPy's or of ml_dtypes'.
py::dtype dtype_named(const char* name);

// `out` after checking its dtype and shape, or a new array where it is None.
py::array output(const py::object& out, const char* where, Shape shape, const py::dtype& dtype);

// The same for kernels whose result has the shape of x, all checked that a kernel needs.
py::array output_like(const py::array& x, const py::object& out, const char* where, const py::dtype& dtype);

}  // namespace quarkfast::python
