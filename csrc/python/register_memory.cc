// Memory of the process.
#include <pybind11/pybind11.h>

#include "runtime/memory.h"

namespace py = pybind11;

namespace quarkfast::python {

void register_memory(py::module_& m) {
  m.def("release_memory", &release_memory, py::call_guard<py::gil_scoped_release>(),
        "Gives memory that is free, and kept by the C library, back to the system.");
  m.def("resident_bytes", &resident_bytes, "Bytes of the process that lie in memory now; 0 where nobody tells.");
}

}  // namespace quarkfast::python
