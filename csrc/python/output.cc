#include "python/output.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <vector>

namespace quarkfast::python {

std::string shape_text(Shape shape) {
  std::string sizes;
  for (const py::ssize_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return "(" + sizes + (shape.size() == 1 ? ",)" : ")");
}

py::dtype dtype_named(const char* name) {
  const py::module_ ml_dtypes = py::module_::import("ml_dtypes");
  return py::dtype::from_args(py::hasattr(ml_dtypes, name) ? py::object(ml_dtypes.attr(name)) : py::str(name));
}

py::array output(const py::object& out, const char* where, Shape shape, const py::dtype& dtype) {
  if (out.is_none()) return py::array(dtype, py::array::ShapeContainer(shape.begin(), shape.end()));
  if (!py::isinstance<py::array>(out)) {
    throw py::type_error(std::string(where) + ": out: expected an array of dtype " + text(dtype) + ", got " +
                         text(py::type::of(out).attr("__name__")));
  }
  const auto y = py::reinterpret_borrow<py::array>(out);
  if (const py::dtype got = y.dtype(); !got.is(dtype) && !got.equal(dtype)) {
    throw py::type_error(std::string(where) + ": out: expected an array of dtype " + text(dtype) + ", got " +
                         text(got));
  }
  if (!std::ranges::equal(shape_of(y), shape)) {
    throw py::value_error(std::string(where) + ": out: expected shape " + shape_text(shape) + ", got " +
                          shape_text(shape_of(y)));
  }
  return y;
}

py::array output_like(const py::array& x, const py::object& out, const char* where, const py::dtype& dtype) {
  py::array y = output(out, where, shape_of(x), dtype);
  if (out.is_none()) return y;
  require_layout(y, where, "out");
  require_writeable(y, where, "out");
  require_no_overlap(x, y, where);
  return y;
}

void register_output(py::module_& m) {
  m.def(
      "output",
      [](const py::object& out, const std::string& where, const std::vector<py::ssize_t>& shape,
         const py::dtype& dtype) { return output(out, where.c_str(), shape, dtype); },
      py::arg("out"), py::arg("where"), py::arg("shape"), py::arg("dtype"),
      "out after checking its dtype and shape, or a new array where it is None.");
}

}  // namespace quarkfast::python
