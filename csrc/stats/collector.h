// Statistics of many tensors, gathered from any thread and any session of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "export.h"
#include "runtime/parallel.h"
#include "stats/absmax.h"
#include "stats/statistics.h"

namespace quarkfast {

// One slot per observed tensor. Every statistic is exactly mergeable, so results depend only on the multiset of values
// seen, not on their order, on batches or on threads.
class QUARKFAST_API Collector {
 public:
  // One entry of gather a slot.
  explicit Collector(const std::vector<Gather>& gather);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  size_t slots() const { return slots_.size(); }
  Gather gather(size_t slot) const { return slots_[slot]->gather; }

  // Adds n values to a slot; slot < slots(). Safe from any thread. T is float, f16 or bf16.
  template <class T>
  void observe(size_t slot, const T* x, size_t n, const Pool& pool) {
    Slot& s = *slots_[slot];
    quarkfast::observe(x, n, s.gather, s.statistics, s.mutex, pool);
  }

  // Adds the largest finite magnitude of each channel of an array (outer, channels, inner). Safe from any thread.
  template <class T>
  void observe_channels(size_t slot, const T* x, size_t outer, size_t channels, size_t inner, const Pool& pool) {
    std::vector<float> top(channels);
    quarkfast::reduce_absmax(x, outer, channels, inner, top.data(), pool);
    merge_channels(slot, top);
  }

  // Adds what was gathered elsewhere.
  void merge(size_t slot, const Statistics& from);

  Range range(size_t slot) const;
  Statistics statistics(size_t slot) const;
  std::vector<float> channel_absmax(size_t slot) const;  // empty where no channels were observed

 private:
  struct Slot {
    explicit Slot(Gather what) : gather(what) {}

    const Gather gather;
    mutable std::mutex mutex;
    Statistics statistics;
    std::vector<float> channel_absmax;
  };

  void merge_channels(size_t slot, const std::vector<float>& top);

  std::vector<std::unique_ptr<Slot>> slots_;
};

// The collectors of the process, by id: how an operator inside a session finds the collector that Python reads.
QUARKFAST_API int64_t open_collector(const std::vector<Gather>& gather);  // one entry a slot
QUARKFAST_API std::shared_ptr<Collector> find_collector(int64_t id);      // null when there is none
QUARKFAST_API bool opened_a_collector();  // whether this copy of the library, of which a process may hold several, has
QUARKFAST_API void close_collector(int64_t id);  // sessions that hold the collector keep it alive

}  // namespace quarkfast
