// windows_library: what the library asks Windows, and statistics gathered in its own threads and in a session of ONNX
// Runtime (observe.onnx), written to statistics.out. tests/ports/windows.py compares them.
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "stats/collector.h"
#include "windows_runtime.h"

using namespace quarkfast;

namespace {

void check_memory() {
  constexpr size_t kHeld = size_t{64} << 20;
  const size_t before = resident_bytes();
  const std::vector<char> held(kHeld, 1);
  const size_t after = resident_bytes();
  if (before == 0 || after < before + kHeld / 2) test::fail("expected resident_bytes() to see 64 MiB more");
}

void check_processors() {
  const size_t all = usable_processors();
  if (!SetProcessAffinityMask(GetCurrentProcess(), 1)) test::fail("expected to be held to one processor");
  const size_t one = usable_processors();
  std::printf("%zu processors, then %zu\n", all, one);
  if (all < 1 || one != 1) test::fail("expected usable_processors() to follow the mask");
}

void write(std::ostream& file, const Statistics& statistics) {
  const auto put = [&](const auto& value) { file.write(reinterpret_cast<const char*>(&value), sizeof value); };
  put(statistics.range.min);
  put(statistics.range.max);
  put(statistics.range.count);
  put(int64_t{statistics.histogram.exponent});
  for (const uint64_t count : statistics.histogram.counts) put(count);
}

}  // namespace

int main() {
  check_memory();
  const test::Tensor x = test::read_tensor("observe.0.in");
  const Gather everything{true, false};
  const int64_t id = open_collector({everything, everything});  // 1, the first, which observe.onnx names
  const std::shared_ptr<Collector> collector = find_collector(id);
  set_num_threads(2);
  collector->observe(0, reinterpret_cast<const float*>(x.bytes.data()), x.bytes.size() / sizeof(float), shared_pool());
  test::Runtime(2).run("observe.onnx", {"x0"}, {x}, {"y"});
  std::ofstream file("statistics.out", std::ios::binary);
  for (size_t slot : {0, 1}) write(file, collector->statistics(slot));
  check_processors();
  return 0;
}
