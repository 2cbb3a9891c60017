#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "base/fatal.h"

namespace tern {
void assertion_failed(const char* expression, const char* file, int line) {
  char text[512];
  std::snprintf(text, sizeof text,
                "[tern] internal error: %s is false at %s:%d. This is a bug in Tern; please report it.", expression,
                file, line);
  tern_fatal_error(text);
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}
}  // namespace tern
