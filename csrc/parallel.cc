#include "parallel.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

#if defined(_OPENMP)
#include <omp.h>
#if !defined(_WIN32)
#include <pthread.h>
#endif
#endif

namespace quarkfast {

namespace {

void run_serially(void*, size_t tasks, void (*task)(void*, size_t), void* arg) {
  for (size_t i = 0; i < tasks; ++i) task(arg, i);
}

std::atomic<bool> forked{false};

#if defined(_OPENMP)

void run_openmp(void*, size_t tasks, void (*task)(void*, size_t), void* arg) {
  const int threads = static_cast<int>(num_threads());
  const long long count = static_cast<long long>(tasks);
  if (count <= threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (long long i = 0; i < count; ++i) task(arg, static_cast<size_t>(i));
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (long long i = 0; i < count; ++i) task(arg, static_cast<size_t>(i));
}

size_t processors() {
#if !defined(_WIN32)
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)registered;
#endif
  return static_cast<size_t>(omp_get_num_procs());
}

#else

#if defined(__SANITIZE_THREAD__)

// ThreadSanitizer does not see how the threads of OpenMP synchronize, and would report every join; it sees these.
void run_openmp(void*, size_t tasks, void (*task)(void*, size_t), void* arg) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) task(arg, i);
  };
  std::vector<std::thread> others(num_threads() - 1);
  for (std::thread& each : others) each = std::thread(work);
  work();
  for (std::thread& each : others) each.join();
}

#else

constexpr auto run_openmp = run_serially;

#endif

size_t processors() {
  return 1;
}

#endif

size_t initial_threads() {
  const char* text = std::getenv("QUARKFAST_NUM_THREADS");
  if (!text || !*text) return processors();
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < 1 || value > 4096) {
    throw std::invalid_argument(std::string("QUARKFAST_NUM_THREADS: expected an integer from 1 to 4096, got '") + text +
                                "'");
  }
  processors();  // registers the fork handler before the first parallel run
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

Pool openmp_pool() {
  const size_t threads = num_threads();
  return forked.load() || threads == 1 ? serial_pool() : Pool{nullptr, threads, run_openmp};
}

size_t num_threads() {
  return threads_setting().load(std::memory_order_relaxed);
}

void set_num_threads(size_t threads) {
  processors();  // registers the fork handler before the first parallel run
  threads_setting().store(threads, std::memory_order_relaxed);
}

}  // namespace quarkfast
