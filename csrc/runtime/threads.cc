#include "runtime/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/keep_loaded.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif defined(_M_ARM64)
#include <intrin.h>
#endif

namespace quarkfast {

namespace {

using Clock = std::chrono::steady_clock;

// A thread that has nothing to do looks for work this long before it sleeps: a sleeping one takes 10 to 100
// microseconds to wake, and calls often follow each other more closely than that.
constexpr auto kPatience = std::chrono::microseconds(200);

// Tells the processor that this is a loop that waits. To yield instead would hand it to whoever else spins there, such
// as the threads of another library between its calls, for a time slice of milliseconds.
inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#elif defined(_M_ARM64)
  __yield();
#endif
}

// Waits until done() or until kPatience has passed; returns done().
template <class Done>
bool spin_until(const Done& done) {
  constexpr int kPauses = 16;  // between two looks at the clock
  const auto end = Clock::now() + kPatience;
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (done()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return done();
}

// The work of one caller. It lies on the caller's stack, so the caller leaves when no other thread is inside.
class Job {
 public:
  Job(size_t threads, size_t tasks, void (*task)(void*, size_t), void* arg)
      : threads_(threads), tasks_(tasks), task_(task), arg_(arg), left_(tasks), begun_((tasks + 63) / 64) {}

  // Whether another thread is of use. Under the mutex of the threads, as is enter().
  bool is_open() const { return helpers_ + 1 < threads_ && left_.load(std::memory_order_relaxed); }

  void enter() {
    ++helpers_;
    inside_.fetch_add(1, std::memory_order_relaxed);
  }

  void leave() { inside_.fetch_sub(1, std::memory_order_release); }

  // Does pieces until none is left to begin: those of one's own share from its begin, those of others from their end.
  void help(size_t number) noexcept {
    for (size_t turn = 0; turn < threads_; ++turn) {
      const size_t share = (number + turn) % threads_;
      const size_t begin = tasks_ * share / threads_, size = tasks_ * (share + 1) / threads_ - begin;
      for (size_t i = 0; i < size && left_.load(std::memory_order_relaxed); ++i) {
        const size_t piece = begin + (turn ? size - 1 - i : i);
        if (begin_piece(piece)) task_(arg_, piece);
      }
    }
  }

  // Waits for the pieces that others have begun. One of them may want this very processor, so after a while it yields.
  void wait() const {
    const auto all_out = [this] { return inside_.load(std::memory_order_acquire) == 0; };
    if (spin_until(all_out)) return;
    while (!all_out()) std::this_thread::yield();
  }

  size_t helpers_wanted() const { return std::min(threads_, tasks_) - 1; }

 private:
  bool begin_piece(size_t piece) {
    const uint64_t bit = uint64_t{1} << (piece % 64);
    if (begun_[piece / 64].fetch_or(bit, std::memory_order_relaxed) & bit) return false;
    left_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  const size_t threads_, tasks_;
  void (*const task_)(void*, size_t);
  void* const arg_;
  size_t helpers_ = 0;
  std::atomic<size_t> inside_{0};
  std::atomic<size_t> left_;
  std::vector<std::atomic<uint64_t>> begun_;  // a bit for each piece
};

#if defined(__linux__)

// Keeps a few helpers off the caller's processor. Linux on a virtual machine was seen to wake them there although
// another was idle, and to leave them waiting for milliseconds.
class Placement {
 public:
  // Under the mutex of the threads, as is keep_off_caller().
  void add(std::thread& helper) {
    helpers_.push_back(helper.native_handle());
    avoided_ = -1;
  }

  void keep_off_caller() {
    constexpr size_t kFew = 8;  // of many, some find a processor of their own
    const int caller = sched_getcpu();
    cpu_set_t allowed;
    if (caller < 0 || caller == avoided_ || helpers_.size() > kFew || sched_getaffinity(0, sizeof(allowed), &allowed)) {
      return;
    }
    avoided_ = caller;
    CPU_CLR(caller, &allowed);
    if (CPU_COUNT(&allowed) == 0) return;
    for (const pthread_t helper : helpers_) pthread_setaffinity_np(helper, sizeof(allowed), &allowed);
  }

 private:
  std::vector<pthread_t> helpers_;
  int avoided_ = -1;
};

#else

class Placement {
 public:
  void add(std::thread&) {}
  void keep_off_caller() {}
};

#endif

class Threads {
 public:
  void run(Job& job, size_t threads) {
    {
      const std::lock_guard lock(mutex_);
      start(threads - 1);
      placement_.keep_off_caller();
      jobs_.push_back(&job);
      posted_.fetch_add(1, std::memory_order_relaxed);
    }
    for (size_t i = 0; i < job.helpers_wanted(); ++i) wake_.notify_one();
    job.help(0);
    {
      const std::lock_guard lock(mutex_);
      jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    }
    job.wait();
  }

 private:
  // Under the mutex. Where the system has no more threads, those that are there do the work.
  void start(size_t wanted) {
    try {
      for (; started_ < wanted; ++started_) {
        std::thread helper(&Threads::work, this, started_);
        placement_.add(helper);
        helper.detach();
      }
    } catch (const std::system_error&) {
    }
  }

  [[noreturn]] void work(size_t number) {
    for (;;) {
      Job& job = next();
      job.help(1 + number);
      job.leave();
    }
  }

  Job& next() {
    look_out();
    std::unique_lock lock(mutex_);
    Job* found = nullptr;
    wake_.wait(lock, [&] { return (found = open_job()) != nullptr; });
    found->enter();
    return *found;
  }

  void look_out() const {
    const uint64_t seen = posted_.load(std::memory_order_relaxed);
    spin_until([this, seen] { return posted_.load(std::memory_order_relaxed) != seen; });
  }

  Job* open_job() const {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* job) { return job->is_open(); });
    return found == jobs_.end() ? nullptr : *found;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> jobs_;
  Placement placement_;
  size_t started_ = 0;
  std::atomic<uint64_t> posted_{0};
};

}  // namespace

void run_on_threads(size_t threads, size_t tasks, void (*task)(void* arg, size_t index), void* arg) {
  // Its threads live as long as the process, and so must their code.
  static Threads& all = *(keep_loaded(), new Threads);
  Job job(threads, tasks, task, arg);
  all.run(job, threads);
}

}  // namespace quarkfast
