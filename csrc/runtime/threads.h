// The threads of calls from Python. They help a caller with the pieces of its work and are never waited for: a thread
// that wakes late finds the work done, where at the barrier of an OpenMP region all others would stand until it came.
#pragma once

#include <cstddef>

namespace quarkfast {

// Runs task(arg, 0) ... task(arg, tasks - 1) on the calling thread and on up to threads - 1 others; returns when all
// are done. A thread begins with the same share of the pieces in every run, so that its cache may hold them, and then
// takes what others have not begun. Threads are started when first needed and kept; any number of callers may share
// them. A task must not throw.
void run_on_threads(size_t threads, size_t tasks, void (*task)(void* arg, size_t index), void* arg);

}  // namespace quarkfast
