#include <fmt/format.h>

#include <cstdlib>

#include "top.h"

int main(int argc, char** argv) {
  using namespace tern::top;
  pid_t job = 0;
  if (argc > 1) {
    char* end = nullptr;
    const long number = std::strtol(argv[1], &end, 10);
    if (argc > 2 || number <= 0 || *end != '\0') {
      fmt::print(stderr, "mpiexec: --top stands alone, with the process number of an mpiexec if there are several\n");
      return 2;
    }
    job = pid_t(number);
  }
  std::string error;
  const std::unique_ptr<Top> top = Top::attach(job, error);
  if (top) return show(*top);
  fmt::print(stderr, "mpiexec: {}\n", error);
  return 1;
}
