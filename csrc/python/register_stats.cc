// Ranges of arrays, and the collectors that operators fill.
#include <pybind11/pybind11.h>

#include <mutex>

#include "../dispatch.h"
#include "../stats/collector.h"
#include "array.h"

namespace quarkfast::python {

namespace {

constexpr size_t kGrain = 65536;  // values below which a second thread costs more than it saves

py::dict to_dict(const Range& r) {
  using namespace py::literals;
  return py::dict("min"_a = r.min, "max"_a = r.max, "count"_a = r.count, "nan"_a = r.nan, "pos_inf"_a = r.pos_inf,
                  "neg_inf"_a = r.neg_inf);
}

// Owns an entry of the process-wide registry for as long as Python holds it.
class Handle {
 public:
  explicit Handle(size_t slots) : id_(open_collector(slots)), collector_(find_collector(id_)) {}
  ~Handle() { close_collector(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int64_t id() const { return id_; }
  size_t slots() const { return collector_->slots(); }
  py::dict range(size_t slot) const { return to_dict(collector_->range(checked(slot))); }

  void observe(size_t slot, const py::array& x) {
    require(x, "Collector.observe", "x", "float32");
    checked(slot);
    const auto* data = static_cast<const float*>(x.data());
    const auto n = static_cast<size_t>(x.size());
    const py::gil_scoped_release release;  // only raw memory from here on
    collector_->observe(slot, data, n, openmp_pool());
  }

 private:
  size_t checked(size_t slot) const {
    if (slot < slots()) return slot;
    throw py::index_error("Collector: slot: expected an index below " + std::to_string(slots()) + ", got " +
                          std::to_string(slot));
  }

  int64_t id_;
  std::shared_ptr<Collector> collector_;
};

}  // namespace

void register_stats(py::module_& m) {
  m.def(
      "reduce_range_f32",
      [](const py::array& x) {
        require(x, "reduce_range_f32", "x", "float32");
        const auto* data = static_cast<const float*>(x.data());
        const auto n = static_cast<size_t>(x.size());
        Range total;
        {
          const py::gil_scoped_release release;  // only raw memory from here on
          const Kernels& kernels = active();
          std::mutex mutex;
          parallel_for(openmp_pool(), n, kGrain, [&](size_t begin, size_t end) {
            Range part;
            kernels.reduce_range_f32(data + begin, end - begin, &part);
            const std::lock_guard lock(mutex);
            merge(total, part);
          });
        }
        return to_dict(total);
      },
      py::arg("x"), "Extremes of the finite values and counts of the others.");

  py::class_<Handle>(m, "Collector", "Statistics of many tensors, filled by Observe operators and read from Python.")
      .def(py::init<size_t>(), py::arg("slots"))
      .def_property_readonly("id", &Handle::id)
      .def_property_readonly("slots", &Handle::slots)
      .def("observe", &Handle::observe, py::arg("slot"), py::arg("x"))
      .def("range", &Handle::range, py::arg("slot"));
}

}  // namespace quarkfast::python
