// Fuzz target: the ELF file of a program that mpiexec starts, read to see which MPI library it is linked with.
#include <fstream>
#include <iterator>

#include "fuzz.h"
#include "mpiexec/linked_mpi.h"

using namespace tern::mpiexec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view content(reinterpret_cast<const char*>(data), bytes);
  const std::vector<std::string> names = needed_libraries(content);
  for (const std::string& name : names) TERN_FUZZ_CHECK(name.size() <= bytes);
  (void)mpi_library(names);
  TERN_FUZZ_CHECK(run_path(content).size() <= bytes);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  // This program's own beginning: its headers, dynamic section and strings are there, cut at 16 KiB they are partly
  // not.
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(self), std::istreambuf_iterator<char>()};
  return {"", "\177ELF", all.substr(0, 16384), all.substr(0, 1000)};
}
