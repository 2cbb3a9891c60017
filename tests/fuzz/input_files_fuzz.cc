// Fuzz target: host files and command files of mpiexec.
#include <algorithm>
#include <sstream>

#include "fuzz.h"
#include "mpiexec/input_files.h"

using namespace tern::mpiexec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  std::istringstream hosts(text), commands(text);
  size_t length = 0;
  for (const auto& [host, slots] : read_hosts(hosts)) {
    length += host.size();
    TERN_FUZZ_CHECK(!host.empty() && host.find_first_of(" \t\n#") == std::string::npos);
    TERN_FUZZ_CHECK(slots >= 0 && slots <= 1'000'000);
  }
  TERN_FUZZ_CHECK(length <= bytes);
  std::vector<std::string> words;
  const int line = read_command_words(commands, words);
  TERN_FUZZ_CHECK(line >= 0 && line <= 1 + std::count(text.begin(), text.end(), '\n'));
  // Separated by single colons; the first and the last is none.
  TERN_FUZZ_CHECK(words.size() <= bytes + 1);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  return {"",
          "node1:4\nnode2 slots=4 # comment\n\nfe80::1\n:3\n# none\n   \t host.example.org\r\n",
          "-n 2 ./a.out 'one word' \"two \\\" words\"\n# comment\n-n 1 \\\n  ./b.out x\\ y\n",
          "-n 2 ./a.out \\",
          "'open",
          "\\",
          ":\n:\n::\n-n 1 a : b\n"};
}
