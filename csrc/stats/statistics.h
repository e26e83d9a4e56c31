// What is gathered about one tensor, and how a whole array is added to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "export.h"
#include "numerics/range.h"
#include "numerics/types.h"
#include "runtime/parallel.h"
#include "stats/exact_sum.h"
#include "stats/histogram.h"

namespace quarkfast {

// What to gather besides the range and the extremes of each observation, which cost next to nothing.
struct Gather {
  bool histogram = false;
  bool moments = false;
};

// Sums over observations (calls, usually one a batch) that had a finite value: exact, so that the mean extreme depends
// on how samples were batched but not on their order.
struct Extremes {
  int64_t observations = 0;
  FloatSum min;
  FloatSum max;
};

// Every part is exactly mergeable: the result depends only on the values seen, not on their order or on threads.
struct Statistics {
  Range range;
  Extremes extremes;
  Histogram histogram;
  Moments moments;
};

QUARKFAST_API void merge(Statistics& into, const Statistics& from);

// Adds n values; the mutex guards the statistics and is held only to add up. T is float, f16 or bf16.
template <class T>
QUARKFAST_API void observe(const T* x, size_t n, Gather gather, Statistics& statistics, std::mutex& mutex,
                           const Pool& pool);

}  // namespace quarkfast
