// What instruments know of the program's memory, where the program has them: it runs under valgrind, or it was compiled
// with -fsanitize=address or -fsanitize=thread. They do not look into this library, which therefore asks them about
// each buffer that a call uses, on behalf of the thread that calls. Without them each function is a test or two.
//
// Valgrind and the ThreadSanitizer print errors of their own, with the places of both sides. Thread rule: the thread
// that calls MPI.
#pragma once

#include <cstddef>

#include "check/buffers.h"

namespace tern::check {

enum class MemoryFault {
  none,
  not_the_programs,  ///< behind the end of a variable or a block, or in memory that was freed
  never_written,     ///< is sent, but holds nothing yet
};

/// What valgrind's memcheck and the AddressSanitizer say of a buffer.
MemoryFault find_memory_fault(const Use& use);
/// The ThreadSanitizer reports another thread that touches these bytes without an order between both.
void tell_thread_sanitizer(const Use& use);
/// Threads that instruments have started.
size_t threads_of_instruments();

}  // namespace tern::check
