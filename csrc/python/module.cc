// The Python bindings: a list of what is registered.
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace quarkfast::python {

void register_block(py::module_& m);
void register_cast(py::module_& m);
void register_collector(py::module_& m);
void register_descent(py::module_& m);
void register_gguf(py::module_& m);
void register_isa(py::module_& m);
void register_linear(py::module_& m);
void register_memory(py::module_& m);
void register_output(py::module_& m);
void register_packing(py::module_& m);
void register_parts(py::module_& m);
void register_ranges(py::module_& m);
void register_requantize(py::module_& m);
void register_stats(py::module_& m);
void register_stochastic(py::module_& m);

}  // namespace quarkfast::python

// Without the interpreter's lock too: what the bindings share between calls is either constant (names of fields, dtypes
// of results), atomic (instruction set, number of threads) or under a mutex (collectors, the pool).
PYBIND11_MODULE(_core, m, py::mod_gil_not_used()) {
  m.doc() = "Bindings to libquarkfast: they check arguments and call, and never compute.";
  quarkfast::python::register_block(m);
  quarkfast::python::register_cast(m);
  quarkfast::python::register_collector(m);
  quarkfast::python::register_descent(m);
  quarkfast::python::register_gguf(m);
  quarkfast::python::register_isa(m);
  quarkfast::python::register_linear(m);
  quarkfast::python::register_memory(m);
  quarkfast::python::register_output(m);
  quarkfast::python::register_packing(m);
  quarkfast::python::register_parts(m);
  quarkfast::python::register_ranges(m);
  quarkfast::python::register_requantize(m);
  quarkfast::python::register_stats(m);
  quarkfast::python::register_stochastic(m);
}
