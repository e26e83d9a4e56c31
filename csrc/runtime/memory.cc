#include "runtime/memory.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(_WIN32)
#include <windows.h>
// After it.
#include <psapi.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#elif defined(__linux__)
#include <unistd.h>

#include <fstream>
#endif

namespace quarkfast {

void release_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

size_t resident_bytes() {
#if defined(_WIN32)
  PROCESS_MEMORY_COUNTERS counters{};
  return K32GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters) ? counters.WorkingSetSize : 0;
#elif defined(__APPLE__)
  mach_task_basic_info info{};
  mach_msg_type_number_t size = MACH_TASK_BASIC_INFO_COUNT;
  const auto told = task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &size);
  return told == KERN_SUCCESS ? info.resident_size : 0;
#elif defined(__linux__)
  size_t pages = 0, resident = 0;  // nothing is read where /proc is not mounted
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
#else
  return 0;
#endif
}

}  // namespace quarkfast
