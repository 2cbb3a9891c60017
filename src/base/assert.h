// Assertions for bugs of ours (never for a user's or the system's errors). On in release too: each is one
// predicted branch. TERN_DEBUG_ASSERT is for checks that cost more, or that stand where every small message passes: on
// in debug and sanitizer builds (TERN_CHECKED), off in release.
#pragma once

namespace tern {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

#define TERN_ASSERT(expression) \
  (__builtin_expect(!!(expression), 1) ? (void)0 : ::tern::assertion_failed(#expression, __FILE__, __LINE__))
#if defined(NDEBUG) && !defined(TERN_CHECKED)
#define TERN_DEBUG_ASSERT(expression) ((void)0)
#else
#define TERN_DEBUG_ASSERT(expression) TERN_ASSERT(expression)
#endif
