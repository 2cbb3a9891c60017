// What the fuzz targets share. A target defines LLVMFuzzerTestOneInput (run by libFuzzer where clang is
// installed: target fuzz_<name>) and its corpus, which the plain driver (mutate_main.cc, a ctest) runs with
// random mutations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);
std::vector<std::string> fuzz_corpus();

#define TERN_FUZZ_CHECK(expression)                                                       \
  do {                                                                                    \
    if (!(expression)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #expression); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
