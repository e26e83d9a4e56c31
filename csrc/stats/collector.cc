#include "stats/collector.h"

#include <algorithm>
#include <unordered_map>

namespace quarkfast {

namespace {

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

Collector::Collector(const std::vector<Gather>& gather) {
  slots_.reserve(gather.size());
  for (const Gather& each : gather) slots_.push_back(std::make_unique<Slot>(each));
}

void Collector::merge(size_t slot, const Statistics& from) {
  Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  quarkfast::merge(s.statistics, from);
}

Range Collector::range(size_t slot) const {
  const Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  return s.statistics.range;
}

Statistics Collector::statistics(size_t slot) const {
  const Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  return s.statistics;
}

std::vector<float> Collector::channel_absmax(size_t slot) const {
  const Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  return s.channel_absmax;
}

void Collector::merge_channels(size_t slot, const std::vector<float>& top) {
  Slot& s = *slots_[slot];
  const std::lock_guard lock(s.mutex);
  s.channel_absmax.resize(std::max(s.channel_absmax.size(), top.size()));
  for (size_t c = 0; c < top.size(); ++c) s.channel_absmax[c] = std::max(s.channel_absmax[c], top[c]);
}

int64_t open_collector(const std::vector<Gather>& gather) {
  Registry& r = registry();
  auto collector = std::make_shared<Collector>(gather);
  const std::lock_guard lock(r.mutex);
  const int64_t id = r.next++;
  r.collectors.emplace(id, std::move(collector));
  return id;
}

bool opened_a_collector() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.next > 1;
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
