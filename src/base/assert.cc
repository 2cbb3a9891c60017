#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace tern {
void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "[tern] internal error: %s is false at %s:%d. This is a bug in Tern; please report it.\n",
               expression, file, line);
  std::abort();
}
}  // namespace tern
