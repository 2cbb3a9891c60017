// The one function through which every error passes that ends this process. Thread rule: any thread.
#pragma once

/// Does nothing: a place for debuggers to stop at, while the failing thread still stands in its call
/// ("break tern_fatal_error" in gdb; docs/commands.md). `text`: what is printed next; valid during the call only.
extern "C" [[gnu::noinline, gnu::used, gnu::visibility("default")]] inline void tern_fatal_error(const char* text) {
  asm volatile("" : : "r"(text) : "memory");  // neither left out nor taken for a function without effect
}
