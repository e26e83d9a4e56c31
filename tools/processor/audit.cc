// Makes shared objects see another processor: an auditing library (rtld-audit(7)) for glibc on x86-64.
//
// QUARKFAST_PROCESSOR_SITES names a file of lines `PATH ADDRESS ...`: the shared objects and, in hexadecimal, where in
// them CPUID instructions lie. As such an object is mapped, before any of its code runs, each of them (0F A2) becomes
// INT3 and NOP (CC 90). The handler of SIGTRAP executes CPUID itself, clears what QUARKFAST_PROCESSOR_MASK takes away
// and returns behind it. SIGTRAP, since Python's faulthandler takes SIGILL and SIGSEGV.
//
// QUARKFAST_PROCESSOR_MASK holds `LEAF:SUBLEAF:EAX:EBX:ECX:EDX ...` in hexadecimal: the bits that stay; subleaf
// ffffffff is any.
#include <cpuid.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Mask {
  uint32_t leaf, subleaf, keep[4];
};

// Most leaves do not read ECX, and who asks for them leaves there what it likes.
constexpr uint32_t kAnySubleaf = 0xFFFFFFFF;
constexpr int kMaxMasks = 16, kMaxSites = 4096;
Mask masks[kMaxMasks];
int mask_count = 0;
// Only grows, and only while the loader holds its lock; a handler sees the sites of the objects whose code runs.
uintptr_t sites[kMaxSites];
volatile int site_count = 0;

[[noreturn]] void fail(const char* what, const char* name) {
  dprintf(2, "tools.processor: expected %s, got %s\n", what, name);
  _exit(70);
}

void handle(int number, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto site = static_cast<uintptr_t>(registers[REG_RIP]) - 1;
  int index = 0;
  while (index < site_count && sites[index] != site) ++index;
  if (index == site_count) {  // a breakpoint of somebody else
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  const auto leaf = static_cast<uint32_t>(registers[REG_RAX]), subleaf = static_cast<uint32_t>(registers[REG_RCX]);
  uint32_t value[4];
  __cpuid_count(leaf, subleaf, value[0], value[1], value[2], value[3]);
  for (int i = 0; i < mask_count; ++i) {
    const bool other_subleaf = masks[i].subleaf != kAnySubleaf && masks[i].subleaf != subleaf;
    if (masks[i].leaf != leaf || other_subleaf) continue;
    for (int k = 0; k < 4; ++k) value[k] &= masks[i].keep[k];
  }
  registers[REG_RAX] = value[0];
  registers[REG_RBX] = value[1];
  registers[REG_RCX] = value[2];
  registers[REG_RDX] = value[3];
}

void read_masks(const char* text) {
  int read = 0;
  for (; *text; text += read) {
    Mask& mask = masks[mask_count];
    uint32_t* keep = mask.keep;
    const int found =
        sscanf(text, "%x:%x:%x:%x:%x:%x %n", &mask.leaf, &mask.subleaf, keep, keep + 1, keep + 2, keep + 3, &read);
    if (found != 6 || ++mask_count == kMaxMasks) fail("a short list of LEAF:SUBLEAF:EAX:EBX:ECX:EDX", text);
  }
}

void patch(unsigned char* instruction, const char* name) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(instruction) & ~(page - 1);
  const size_t size = reinterpret_cast<uintptr_t>(instruction) + 2 - start;
  if (instruction[0] != 0x0F || instruction[1] != 0xA2) fail("a list of CPUID instructions as old as the file", name);
  // Never without PROT_EXEC: the page may hold code that another thread runs, of an object loaded twice.
  if (mprotect(reinterpret_cast<void*>(start), size, PROT_READ | PROT_WRITE | PROT_EXEC)) fail("writable code", name);
  instruction[0] = 0xCC;
  instruction[1] = 0x90;
  mprotect(reinterpret_cast<void*>(start), size, PROT_READ | PROT_EXEC);
  if (site_count == kMaxSites) fail("at most 4096 CPUID instructions", name);
  sites[site_count] = reinterpret_cast<uintptr_t>(instruction);
  site_count = site_count + 1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned la_version(unsigned version) {
  const char* text = getenv("QUARKFAST_PROCESSOR_MASK");
  read_masks(text ? text : "");
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// Called for each shared object once it is mapped and before its constructors run.
extern "C" __attribute__((visibility("default"))) unsigned la_objopen(link_map* object, Lmid_t, uintptr_t*) {
  const char* list = getenv("QUARKFAST_PROCESSOR_SITES");
  char real[PATH_MAX];
  if (!list || !object->l_name[0] || !realpath(object->l_name, real)) return 0;
  FILE* file = fopen(list, "r");
  if (!file) fail("the file that QUARKFAST_PROCESSOR_SITES names", list);
  char* line = nullptr;
  size_t capacity = 0;
  const size_t length = strlen(real);
  while (getline(&line, &capacity, file) > 0) {
    if (strncmp(line, real, length) != 0 || line[length] != '\t') continue;
    char* rest = line + length;
    for (;;) {
      char* end = nullptr;
      const unsigned long offset = strtoul(rest, &end, 16);
      if (end == rest) break;
      patch(reinterpret_cast<unsigned char*>(object->l_addr + offset), real);
      rest = end;
    }
  }
  free(line);
  fclose(file);
  return 0;
}
