// quarkfast::Observe: hands its input through and adds it to one slot of a collector.
#include <cstring>

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
                  "; create the session while the collector is open"};
    }
    if (slot < 0 || static_cast<size_t>(slot) >= collector_->slots()) {
      throw Error{"attribute 'slot': expected 0 to " + std::to_string(collector_->slots() - 1) + ", got " +
                  std::to_string(slot)};
    }
    slot_ = static_cast<size_t>(slot);
  }

  void operator()(const Run& run, In<E> x, Out<E> y) const {
    auto* out = y.allocate(x.shape);
    collector_->observe(slot_, x.data, x.size, run.pool());
    // ONNX Runtime may still part the two, for example when the input is an initializer.
    if (out != x.data && x.size != 0) std::memcpy(out, x.data, x.size * sizeof *out);
  }

 private:
  std::shared_ptr<Collector> collector_;
  size_t slot_ = 0;
};

}  // namespace

void add_observe(Definitions& definitions, const OrtApi* api) {
  for_each_type<F32, F16, BF16>([&]<class E>() { definitions.push_back(define<Observe<E>>(api, kDomain, "Observe")); });
}

}  // namespace quarkfast::ort
