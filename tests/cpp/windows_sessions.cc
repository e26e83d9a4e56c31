// windows_sessions THREADS: runs the models of cases.txt, one a line: name, inputs and outputs, each list with its
// length before it. tests/ports/windows.py writes the files and compares what this writes.
#include <sstream>

#include "windows_runtime.h"

using namespace quarkfast::test;

namespace {

std::vector<std::string> read_list(std::istream& words) {
  size_t count = 0;
  words >> count;
  std::vector<std::string> names(count);
  for (std::string& name : names) words >> name;
  return names;
}

std::vector<const char*> pointers(const std::vector<std::string>& names) {
  std::vector<const char*> found;
  for (const std::string& name : names) found.push_back(name.c_str());
  return found;
}

size_t run_all(const Runtime& runtime) {
  std::ifstream cases("cases.txt");
  size_t ran = 0;
  for (std::string line; std::getline(cases, line); ++ran) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const std::vector<std::string> inputs = read_list(words), outputs = read_list(words);
    std::vector<Tensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) given.push_back(read_tensor(name + "." + std::to_string(i) + ".in"));
    const std::vector<Tensor> made = runtime.run(name + ".onnx", pointers(inputs), std::move(given), pointers(outputs));
    for (size_t i = 0; i < made.size(); ++i) write_tensor(name + "." + std::to_string(i) + ".out", made[i]);
  }
  return ran;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail("windows_sessions: expected the number of threads");
  {
    const Runtime runtime(std::atoi(argv[1]));
    std::printf("%zu models\n", run_all(runtime));
  }
  // The runtime has closed the library; its code must be there still.
  if (GetModuleHandleW(L"quarkfast.dll") == nullptr) fail("expected quarkfast.dll in the process, got it unloaded");
  return 0;
}
