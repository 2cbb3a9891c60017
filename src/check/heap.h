// The blocks of memory that malloc of the GNU C library has given to the program: whether a buffer ends behind the
// block that it begins in, or lies in one that was freed. The library's own record is read: the heap that brk()
// provides is an array of blocks, each with a word before it that holds its size and whether the block before it is in
// use; a large block is a mapping of its own, with the same word (glibc, malloc/malloc.c, "malloc_chunk details").
//
// The array is believed only where it leads exactly from the heap's begin to its end. With another malloc (valgrind,
// the sanitizers, jemalloc) it does not, and then nothing is known; nor of blocks of other arenas, which threads have.
// Thread rule: other threads may allocate meanwhile, so what is found once may be wrong: ask again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check/buffers.h"

namespace tern::check {

/// Where a buffer leaves the block that it begins in.
struct HeapFault {
  bool freed = false;   ///< nobody has the block; else:
  uint64_t bytes = 0;   ///< the size of the block, at most 24 more than the program asked for
  uint64_t excess = 0;  ///< how far the buffer reaches behind it
  bool found() const { return freed || excess != 0; }
};

/// The first fault of these pieces of memory. None also where nothing is known of them.
HeapFault find_heap_fault(const Bytes& bytes);

}  // namespace tern::check
