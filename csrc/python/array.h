// The one place where the bindings check an array.
#pragma once

#include <pybind11/numpy.h>

#include <cstring>
#include <string>

namespace quarkfast::python {

namespace py = pybind11;

inline std::string text(const py::handle& object) {
  return py::cast<std::string>(py::str(object));
}

inline std::string shape_text(const py::array& array) {
  return text(array.attr("shape"));
}

// Whether the array's dtype has this name (e.g. "float32"). The name of its scalar type, "numpy.float32" or "bfloat16",
// nearly always decides; to make the name of a dtype takes 2 microseconds. It keeps nothing, so that it needs no lock.
inline bool has_dtype(const py::array& array, const char* dtype) {
  const py::dtype got = array.dtype();
  const auto* type = reinterpret_cast<PyTypeObject*>(py::detail::array_descriptor_proxy(got.ptr())->typeobj);
  const char* dot = std::strrchr(type->tp_name, '.');
  const bool native = got.byteorder() == '=' || got.byteorder() == '|';
  if (native && std::strcmp(dot ? dot + 1 : type->tp_name, dtype) == 0) return true;
  return text(got) == dtype;  // "longlong" is int64 too
}

inline void require_dtype(const py::array& array, const char* where, const char* argument, const char* dtype) {
  if (!has_dtype(array, dtype)) {
    throw py::type_error(std::string(where) + ": " + argument + ": expected dtype " + dtype + ", got " +
                         text(array.dtype()));
  }
}

// Whether a kernel can read the array as it lies in memory.
inline bool is_laid_out(const py::array& array) {
  constexpr int kWanted = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  return (array.flags() & kWanted) == kWanted;
}

// The array, C-contiguous and aligned: copied only where it is not.
inline py::array laid_out(const py::array& array) {
  return is_laid_out(array) ? array : py::array(array.attr("copy")("C"));
}

inline void require_layout(const py::array& array, const char* where, const char* argument) {
  if (!(array.flags() & py::array::c_style)) {
    throw py::value_error(std::string(where) + ": " + argument + ": expected a C-contiguous array, got strides " +
                          text(array.attr("strides")) + " for shape " + shape_text(array));
  }
  if (!(array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_)) {
    throw py::value_error(std::string(where) + ": " + argument +
                          ": expected memory aligned to the item size, got an odd address");
  }
}

// Throws unless the array has the dtype of this name, is C-contiguous and aligned.
inline void require(const py::array& array, const char* where, const char* argument, const char* dtype) {
  require_dtype(array, where, argument, dtype);
  require_layout(array, where, argument);
}

inline void require_writeable(const py::array& array, const char* where, const char* argument) {
  if (!array.writeable()) {
    throw py::value_error(std::string(where) + ": " + argument + ": expected a writeable array, got a read-only one");
  }
}

inline void require_size(const py::array& array, const char* where, const char* argument, py::ssize_t size) {
  if (array.size() != size) {
    throw py::value_error(std::string(where) + ": " + argument + ": expected " + std::to_string(size) +
                          " elements, got " + std::to_string(array.size()) + " (shape " + shape_text(array) + ")");
  }
}

// True where the two arrays share memory without being the same memory: a kernel could then read what it wrote.
inline bool overlap_partly(const py::array& x, const py::array& y) {
  const auto* a = static_cast<const char*>(x.data());
  const auto* b = static_cast<const char*>(y.data());
  if (a == b && x.itemsize() == y.itemsize()) return false;
  return a < b + y.nbytes() && b < a + x.nbytes();
}

// For kernels that cannot work in place at all.
inline void require_apart(const py::array& x, const py::array& y, const char* where) {
  if (x.size() && y.size() && (overlap_partly(x, y) || x.data() == y.data())) {
    throw py::value_error(std::string(where) + ": out: expected memory apart from x, got arrays that overlap");
  }
}

inline void require_no_overlap(const py::array& x, const py::array& y, const char* where) {
  if (x.size() && overlap_partly(x, y)) {
    throw py::value_error(std::string(where) +
                          ": out: expected memory apart from x (or x itself, same item size), got "
                          "arrays that overlap");
  }
}

}  // namespace quarkfast::python
