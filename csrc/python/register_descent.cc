// Rounding of weights by coordinate descent.
#include <pybind11/pybind11.h>

#include <utility>

#include "python/array.h"
#include "tensor/descend_codes.h"

namespace quarkfast::python {

namespace {

constexpr const char* kWhere = "descend_codes_f64";

void require_in_place(const py::array& array, const char* argument, py::ssize_t size) {
  require(array, kWhere, argument, "float64");
  require_writeable(array, kWhere, argument);
  require_size(array, kWhere, argument, size);
}

}  // namespace

void register_descent(py::module_& m) {
  m.def(
      kWhere,
      [](py::array& codes, py::array& residual, const py::array& gram, const py::array& scale, const py::array& low,
         const py::array& high, size_t passes) {
        require(scale, kWhere, "scale", "float64");
        const py::ssize_t rows = scale.size();
        const py::ssize_t n = rows ? codes.size() / rows : 0;
        require_in_place(codes, "codes", rows * n);
        require_in_place(residual, "residual", rows * n);
        require(gram, kWhere, "gram", "float64");
        require_size(gram, kWhere, "gram", n * n);
        for (const auto& [argument, limits] : {std::pair{"low", &low}, std::pair{"high", &high}}) {
          require(*limits, kWhere, argument, "float64");
          require_size(*limits, kWhere, argument, rows * n);
        }
        const DescentProblem problem{.codes = static_cast<double*>(codes.mutable_data()),
                                     .residual = static_cast<double*>(residual.mutable_data()),
                                     .gram = static_cast<const double*>(gram.data()),
                                     .scale = static_cast<const double*>(scale.data()),
                                     .low = static_cast<const double*>(low.data()),
                                     .high = static_cast<const double*>(high.data()),
                                     .rows = static_cast<size_t>(rows),
                                     .n = static_cast<size_t>(n),
                                     .passes = passes};
        const py::gil_scoped_release release;
        descend_codes(problem, shared_pool());
      },
      py::arg("codes"), py::arg("residual"), py::arg("gram"), py::arg("scale"), py::arg("low"), py::arg("high"),
      py::arg("passes"));
}

}  // namespace quarkfast::python
