#include "stats/statistics.h"

#include <algorithm>
#include <memory>

#include "runtime/dispatch.h"
#include "runtime/statistics_kernels.h"

namespace quarkfast {

namespace {

constexpr size_t kRangeGrain = 65536;      // values below which a second thread costs more than it saves
constexpr size_t kHistogramGrain = 16384;  // the same where each value takes about three times as long

// Counters are kept for the life of a thread and are empty between uses: clearing 16 KiB would cost a small tensor more
// than counting it.
HistogramCounters& counters() {
  thread_local const auto instance = std::make_unique<HistogramCounters>();
  return *instance;
}

void fold(HistogramCounters& c, const Range& r, Histogram& h, const Kernels& kernels) {
  widen(h, c.exponent);
  if (c.exponent < h.exponent) {  // another thread met a larger value meanwhile
    for (uint16_t* lane : c.lanes) merge_bins(lane, h.exponent - c.exponent);
    c.exponent = h.exponent;
  }
  kernels.fold_histogram(&c, r, h.counts.data());
}

// One call of observe(), shared by its threads.
template <class T>
struct Observation {
  const Kernels& kernels = active();
  Gather gather;
  Statistics& statistics;
  std::mutex& mutex;
  Range range{};  // of this call alone; guarded by the mutex like the statistics

  void block(const T* x, size_t n) {
    const StatisticsKernels<T>& row = statistics_kernels<T>(kernels);
    Range part;
    if (gather.histogram) {
      HistogramCounters& c = counters();
      {
        const std::lock_guard lock(mutex);
        c.exponent = statistics.histogram.exponent;
      }
      row.count_histogram(x, n, &part, &c);
      const std::lock_guard lock(mutex);
      fold(c, part, statistics.histogram, kernels);
      merge(range, part);
    } else {
      row.reduce_range(x, n, &part);
      const std::lock_guard lock(mutex);
      merge(range, part);
    }
    for (size_t begin = 0; gather.moments && begin < n; begin += kMomentsBlock) {
      ExponentSums sums;
      row.sum_moments(x + begin, std::min(kMomentsBlock, n - begin), &sums);
      const std::lock_guard lock(mutex);
      add(statistics.moments, sums);
    }
  }
};

}  // namespace

void merge(Statistics& into, const Statistics& from) {
  merge(into.range, from.range);
  into.extremes.observations += from.extremes.observations;
  into.extremes.min.add(from.extremes.min);
  into.extremes.max.add(from.extremes.max);
  merge(into.histogram, from.histogram);
  merge(into.moments, from.moments);
}

template <class T>
void observe(const T* x, size_t n, Gather gather, Statistics& statistics, std::mutex& mutex, const Pool& pool) {
  Observation<T> observation{.gather = gather, .statistics = statistics, .mutex = mutex};
  if (gather.histogram) {
    const std::lock_guard lock(mutex);
    allocate(statistics.histogram);
  }
  const bool blocks = gather.histogram || gather.moments;
  parallel_for(pool, n, blocks ? kHistogramGrain : kRangeGrain, [&](size_t begin, size_t end) {
    const size_t step = blocks ? kHistogramBlock : end - begin;
    for (; begin < end; begin += step) observation.block(x + begin, std::min(step, end - begin));
  });
  const Range& seen = observation.range;
  const std::lock_guard lock(mutex);
  merge(statistics.range, seen);
  if (finite(seen) == 0) return;
  ++statistics.extremes.observations;
  add(statistics.extremes.min, seen.min);
  add(statistics.extremes.max, seen.max);
}

template QUARKFAST_API void observe(const float*, size_t, Gather, Statistics&, std::mutex&, const Pool&);
template QUARKFAST_API void observe(const f16*, size_t, Gather, Statistics&, std::mutex&, const Pool&);
template QUARKFAST_API void observe(const bf16*, size_t, Gather, Statistics&, std::mutex&, const Pool&);

}  // namespace quarkfast
