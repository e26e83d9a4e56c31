// quarkfast::Observe: passes its input through and adds it to one slot of a collector.
#include <cstring>
#include <limits>

#include "ort/ops/ops.h"
#include "stats/collector.h"

namespace quarkfast::ort {

namespace {

// E is F32, F16 or BF16: models in half precision are observed as they are.
template <class E>
class Observe {
 public:
  // The output is the input's own memory: observing costs no copy and keeps no tensor alive longer.
  static constexpr bool kKeepsShape = true;
  static constexpr size_t kTypeOfInput = 0;
  static constexpr bool kMayInPlace = true;
  static constexpr bool kAliasesInput = true;

  explicit Observe(const Node& node) {
    const int64_t id = node.integer("collector");
    const int64_t slot = node.integer("slot");
    collector_ = find_collector(id);
    if (collector_ == nullptr) {
      throw Error{"attribute 'collector': expected the id of an open collector, got " + std::to_string(id) +
                  (opened_a_collector() ? "; create the session while the collector is open"
                                        : " in a copy of the library that has opened none; register the library at "
                                          "quarkfast.get_library_path(), which Python opens collectors in")};
    }
    if (slot < 0 || static_cast<size_t>(slot) >= collector_->slots()) {
      throw Error{"attribute 'slot': expected 0 to " + std::to_string(collector_->slots() - 1) + ", got " +
                  std::to_string(slot)};
    }
    slot_ = static_cast<size_t>(slot);
    axis_ = node.integer("axis", kNone);
  }

  void operator()(const Run& run, In<E> x, Out<E> y) const {
    auto* out = y.allocate(x.shape);
    collector_->observe(slot_, x.data, x.size, run.pool());
    if (axis_ != kNone) observe_channels(run, x);
    // ONNX Runtime may still part the two, for example when the input is an initializer.
    if (out != x.data && x.size != 0) std::memcpy(out, x.data, x.size * sizeof *out);
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

  void observe_channels(const Run& run, const In<E>& x) const {
    const auto rank = static_cast<int64_t>(x.shape.rank());
    if (axis_ < -rank || axis_ >= rank) {
      throw Error{"attribute 'axis': expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
                  " for an input of shape " + x.shape.text() + ", got " + std::to_string(axis_)};
    }
    const auto axis = static_cast<size_t>(axis_ < 0 ? axis_ + rank : axis_);
    const size_t outer = x.shape.product(0, axis), inner = x.shape.product(axis + 1, x.shape.rank());
    collector_->observe_channels(slot_, x.data, outer, static_cast<size_t>(x.shape[axis]), inner, run.pool());
  }

  std::shared_ptr<Collector> collector_;
  size_t slot_ = 0;
  int64_t axis_ = kNone;  // of the channels, where their magnitudes are gathered
};

}  // namespace

void add_observe(Definitions& definitions, const OrtApi* api) {
  for_each_type<F32, F16, BF16>([&]<class E>() { definitions.push_back(define<Observe<E>>(api, kDomain, "Observe")); });
}

}  // namespace quarkfast::ort
