#include "runtime/parallel.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/threads.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace quarkfast {

namespace {

void run_serially(void*, size_t tasks, void (*task)(void*, size_t), void* arg) {
  for (size_t i = 0; i < tasks; ++i) task(arg, i);
}

void run_together(void* context, size_t tasks, void (*task)(void*, size_t), void* arg) {
  run_on_threads(reinterpret_cast<uintptr_t>(context), tasks, task, arg);
}

std::atomic<bool> forked{false};

void watch_forks() {
#if !defined(_WIN32)
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)registered;
#endif
}

size_t initial_threads() {
  const char* text = std::getenv("QUARKFAST_NUM_THREADS");
  if (!text || !*text) return usable_processors();
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < 1 || value > 4096) {
    throw std::invalid_argument(std::string("QUARKFAST_NUM_THREADS: expected an integer from 1 to 4096, got '") + text +
                                "'");
  }
  return static_cast<size_t>(value);
}

std::atomic<size_t>& threads_setting() {
  static std::atomic<size_t> threads{initial_threads()};
  return threads;
}

}  // namespace

Pool serial_pool() {
  return {nullptr, 1, run_serially};
}

Pool shared_pool() {
  watch_forks();
  const size_t threads = num_threads();
  if (forked.load() || threads == 1) return serial_pool();
  return {reinterpret_cast<void*>(uintptr_t{threads}), threads, run_together};
}

size_t usable_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<size_t>(CPU_COUNT(&set));
#elif defined(_WIN32)
  // Masks tell of one group of 64 processors; a process that is held to none may use those of other groups too.
  DWORD_PTR process = 0, system = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system) && process && process != system) {
    return static_cast<size_t>(std::popcount(uint64_t{process}));
  }
#endif
  const size_t found = std::thread::hardware_concurrency();
  return found ? found : 1;
}

size_t num_threads() {
  return threads_setting().load(std::memory_order_relaxed);
}

void set_num_threads(size_t threads) {
  threads_setting().store(threads, std::memory_order_relaxed);
}

}  // namespace quarkfast
