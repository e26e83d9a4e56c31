// Instruction sets and number of threads.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "runtime/dispatch.h"
#include "runtime/parallel.h"

namespace py = pybind11;

namespace quarkfast::python {

void register_isa(py::module_& m) {
  m.def("active_isa", [] { return std::string(active().isa); }, "Name of the instruction set in use.");
  m.def("available_isas", &available, "Names of the instruction sets that this processor runs, best first.");
  m.def("use_isa", &use, py::arg("name"), "Makes the named instruction set the active one for the process.");
  m.def("usable_processors", &usable_processors, "Processors that this process may use.");
  m.def("num_threads", &num_threads, "Threads that kernels called from Python use.");
  m.def(
      "set_num_threads",
      [](long long threads) {
        if (threads < 1 || threads > 4096) {
          throw py::value_error("set_num_threads: threads: expected an integer from 1 to 4096, got " +
                                std::to_string(threads));
        }
        set_num_threads(static_cast<size_t>(threads));
      },
      py::arg("threads"), "Sets the number of threads.");
}

}  // namespace quarkfast::python
