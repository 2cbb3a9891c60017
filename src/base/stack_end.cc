#include "base/stack_end.h"

#include <pthread.h>

namespace tern {

namespace {

uintptr_t find_stack_end() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* begin = nullptr;
  size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &begin, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(begin) + bytes : 0;
}

}  // namespace

uintptr_t stack_end() {
  thread_local const uintptr_t end_of_this_stack = find_stack_end();
  return end_of_this_stack;
}

size_t bytes_behind_stack_above(uintptr_t begin, size_t bytes) {
  const uintptr_t end = stack_end();
  return begin < end && bytes > end - begin ? bytes - (end - begin) : 0;
}

}  // namespace tern
