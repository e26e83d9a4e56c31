#include "collector.h"

#include <unordered_map>

#include "../dispatch.h"

namespace quarkfast {

namespace {

constexpr size_t kGrain = 65536;  // values below which a second thread costs more than it saves

struct Registry {
  std::mutex mutex;
  int64_t next = 1;
  std::unordered_map<int64_t, std::shared_ptr<Collector>> collectors;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Collector::Collector(size_t slots) {
  slots_.reserve(slots);
  for (size_t i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
}

void Collector::observe(size_t slot, const float* x, size_t n, const Pool& pool) {
  Slot& s = *slots_[slot];
  const Kernels& kernels = active();
  parallel_for(pool, n, kGrain, [&](size_t begin, size_t end) {
    Range part;
    kernels.reduce_range_f32(x + begin, end - begin, &part);
    const std::lock_guard lock(s.mutex);
    merge(s.range, part);
  });
}

Range Collector::range(size_t slot) const {
  const Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  return s.range;
}

int64_t open_collector(size_t slots) {
  Registry& r = registry();
  auto collector = std::make_shared<Collector>(slots);
  const std::lock_guard lock(r.mutex);
  const int64_t id = r.next++;
  r.collectors.emplace(id, std::move(collector));
  return id;
}

std::shared_ptr<Collector> find_collector(int64_t id) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.collectors.find(id);
  return found == r.collectors.end() ? nullptr : found->second;
}

void close_collector(int64_t id) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.collectors.erase(id);
}

}  // namespace quarkfast
