// The collectors that operators fill.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <variant>
#include <vector>

#include "python/statistics.h"
#include "stats/collector.h"

namespace quarkfast::python {

namespace {

// For all slots, or for each of them.
using Flags = std::variant<bool, std::vector<bool>>;

bool flag_of(const Flags& flags, size_t slot) {
  const auto* each = std::get_if<std::vector<bool>>(&flags);
  return each == nullptr ? std::get<bool>(flags) : (*each)[slot];
}

void require_one_a_slot(const Flags& flags, size_t slots, const std::string& what) {
  const auto* each = std::get_if<std::vector<bool>>(&flags);
  if (each == nullptr || each->size() == slots) return;
  throw py::value_error("Collector: " + what + ": expected one flag for each of " + std::to_string(slots) +
                        " slots, got " + std::to_string(each->size()));
}

std::vector<Gather> gather_of(size_t slots, const Flags& histogram, const Flags& moments) {
  require_one_a_slot(histogram, slots, "histogram");
  require_one_a_slot(moments, slots, "moments");
  std::vector<Gather> found(slots);
  for (size_t i = 0; i < slots; ++i) found[i] = {flag_of(histogram, i), flag_of(moments, i)};
  return found;
}

// Owns an entry of the process-wide registry for as long as Python holds it.
class Handle {
 public:
  Handle(size_t slots, const Flags& histogram, const Flags& moments)
      : id_(open_collector(gather_of(slots, histogram, moments))), collector_(find_collector(id_)) {}
  ~Handle() { close_collector(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int64_t id() const { return id_; }
  size_t slots() const { return collector_->slots(); }

  py::dict range(size_t slot) const { return to_dict(collector_->range(checked(slot))); }
  py::tuple extremes(size_t slot) const { return to_tuple(read(slot).extremes); }

  py::tuple histogram(size_t slot) const {
    require_gathered(collector_->gather(checked(slot)).histogram, "histogram");
    return to_tuple(read(slot).histogram);
  }

  py::tuple moments(size_t slot) const {
    require_gathered(collector_->gather(checked(slot)).moments, "moments");
    return to_tuple(read(slot).moments);
  }

  py::array channel_absmax(size_t slot) const {
    const std::vector<float> top = collector_->channel_absmax(checked(slot));
    return py::array_t<float>(static_cast<py::ssize_t>(top.size()), top.data());
  }

  void observe(size_t slot, const py::array& x) {
    checked(slot);
    const std::string dtype = text(x.dtype());
    if (dtype == FloatType<f16>::dtype) return observe_as<f16>(slot, x);
    if (dtype == FloatType<bf16>::dtype) return observe_as<bf16>(slot, x);
    observe_as<float>(slot, x);
  }

  void merge(size_t slot, const py::dict& range, const py::tuple& extremes, const std::optional<py::tuple>& histogram,
             const std::optional<py::tuple>& moments) {
    checked(slot);
    Statistics from{.range = range_of(range), .extremes = extremes_of(extremes), .histogram = {}, .moments = {}};
    if (histogram) from.histogram = histogram_of((*histogram)[0].cast<py::array>(), (*histogram)[1].cast<int64_t>());
    if (moments) from.moments = moments_of(*moments);
    collector_->merge(slot, from);
  }

 private:
  size_t checked(size_t slot) const {
    if (slot < slots()) return slot;
    throw py::index_error("Collector: slot: expected an index below " + std::to_string(slots()) + ", got " +
                          std::to_string(slot));
  }

  static void require_gathered(bool gathered, const std::string& what) {
    if (gathered) return;
    throw py::value_error("Collector." + what + ": expected a collector opened with " + what +
                          "=True, got one without");
  }

  Statistics read(size_t slot) const { return collector_->statistics(checked(slot)); }

  template <class T>
  void observe_as(size_t slot, const py::array& x) {
    require(x, "Collector.observe", "x", FloatType<T>::dtype);
    const auto* data = static_cast<const T*>(x.data());
    const auto n = static_cast<size_t>(x.size());
    const py::gil_scoped_release release;  // only raw memory from here on
    collector_->observe(slot, data, n, shared_pool());
  }

  int64_t id_;
  std::shared_ptr<Collector> collector_;
};

}  // namespace

void register_collector(py::module_& m) {
  py::class_<Handle>(m, "Collector", "Statistics of many tensors, filled by Observe operators and read from Python.")
      .def(py::init<size_t, const Flags&, const Flags&>(), py::arg("slots"), py::kw_only(),
           py::arg("histogram") = false, py::arg("moments") = false)
      .def_property_readonly("id", &Handle::id)
      .def_property_readonly("slots", &Handle::slots)
      .def("observe", &Handle::observe, py::arg("slot"), py::arg("x"))
      .def("merge", &Handle::merge, py::arg("slot"), py::arg("range"), py::arg("extremes"), py::arg("histogram"),
           py::arg("moments"))
      .def("range", &Handle::range, py::arg("slot"))
      .def("extremes", &Handle::extremes, py::arg("slot"))
      .def("histogram", &Handle::histogram, py::arg("slot"))
      .def("moments", &Handle::moments, py::arg("slot"))
      .def("channel_absmax", &Handle::channel_absmax, py::arg("slot"));
}

}  // namespace quarkfast::python
