// Splits a range over threads. The caller brings the pool: that of runtime/threads.h for Python, onnxruntime's own
// for operators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "export.h"

namespace quarkfast {

// A pool runs task(arg, 0) ... task(arg, tasks - 1), in any order and on any thread, and returns when all are done. No
// more tasks than threads: best each on the same thread in every run.
struct Pool {
  void* context;
  size_t threads;
  void (*run)(void* context, size_t tasks, void (*task)(void* arg, size_t index), void* arg);
};

// Calls body(begin, end) over pieces of [0, n) of at least grain elements (but for the last). The pieces depend on the
// thread count, so body's result must not depend on where they are cut.
template <class Body>
void parallel_for(const Pool& pool, size_t n, size_t grain, Body&& body) {
  const size_t pieces = std::min(pool.threads, n / std::max<size_t>(grain, 1));
  if (pieces <= 1) {
    if (n) body(size_t{0}, n);
    return;
  }
  // What fits the caches of the cores is cut into one piece a thread, which the pool gives to the same threads again
  // and again, so that their caches hold it already; more is cut finer, to even out threads that start late.
  constexpr size_t kCached = 32;
  const size_t cuts = pieces * (n / std::max<size_t>(grain, 1) <= kCached ? 1 : 4);
  const size_t step = std::max(grain, (n + cuts - 1) / cuts);
  struct Work {
    std::remove_reference_t<Body>* body;
    size_t n, step;
  } work{&body, n, step};
  pool.run(
      pool.context, (n + step - 1) / step,
      [](void* arg, size_t index) {
        const Work& w = *static_cast<Work*>(arg);
        const size_t begin = index * w.step;
        (*w.body)(begin, std::min(begin + w.step, w.n));
      },
      &work);
}

// The calling thread alone.
QUARKFAST_API Pool serial_pool();

// The pool of calls from Python. A child made by fork() runs serially: threads do not survive a fork.
QUARKFAST_API Pool shared_pool();

// Processors that the process is held to (taskset, cpusets of containers, Windows' affinity), else all; at least 1.
QUARKFAST_API size_t usable_processors();

// Threads of shared_pool(): QUARKFAST_NUM_THREADS, else usable_processors().
QUARKFAST_API size_t num_threads();
QUARKFAST_API void set_num_threads(size_t threads);

}  // namespace quarkfast
