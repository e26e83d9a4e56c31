#include "ort/run.h"

#include <algorithm>
#include <thread>

namespace quarkfast::ort {

namespace {

void run_tasks(void* context, size_t tasks, void (*task)(void* arg, size_t index), void* arg) {
  const auto& run = *static_cast<const Run*>(context);
  check(call<slot::KernelContext_ParallelFor>(run.api, run.context, task, tasks, size_t{0}, arg));
}

}  // namespace

Pool Run::pool() const {
  // The table does not tell how many threads the session has; with fewer than this, ONNX Runtime deals the tasks out.
  static const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  return Pool{const_cast<Run*>(this), threads, run_tasks};
}

}  // namespace quarkfast::ort
