// Fuzz target: machine files of the simulator (machines/*.toml), which users write.
#include <fstream>
#include <iterator>

#include "fuzz.h"
#include "sim/machine_file.h"

using namespace tern;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  sim::MachineModel machine;
  const Error error = sim::parse_machine(std::string(reinterpret_cast<const char*>(data), bytes), "a file", machine);
  TERN_FUZZ_CHECK(!error || error.text().starts_with("a file"));
  TERN_FUZZ_CHECK(error || !machine.name.empty());
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  std::vector<std::string> corpus{
      "", "[machine]\nname = \"small\"\ncores_per_node = { value = 4, source = \"s\" }\n",
      "[machine]\nname = \"n\"\n[claims]\nx = { value = 9223372036854775807, source = \"s\" }\n[network]\nlatency_ns = "
      "{ "
      "value = -1, source = \"s\" }\n",
      "[adapter]\ndevice = 'd'\nmtu_bytes = { value = 0, source = \"\" , more = [[[[[[[1]]]]]]] }\n"};
  for (const char* name : {"connect-ib.toml", "gigabit.toml"}) {
    std::ifstream file(std::string(TERN_MACHINES "/") + name);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}
