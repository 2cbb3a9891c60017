// Buffers against the blocks that malloc has given. The sanitizers have a malloc of their own, of which nothing is
// known.
#include <malloc.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "check/heap.h"

namespace tern::check {
namespace {

HeapFault fault_of(void* at, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  Bytes piece;
  piece.ranges.push_back({begin, begin + bytes});
  return find_heap_fault(piece);
}

using Block = std::unique_ptr<char, void (*)(void*)>;
Block allocate(size_t bytes) { return {static_cast<char*>(std::malloc(bytes)), std::free}; }

bool is_known() {
  const Block block = allocate(16);
  return fault_of(block.get(), 4096).found();
}

constexpr char kUnknown[] = "another malloc, or no [heap] in /proc/self/maps (qemu-user)";

TEST(Heap, BlocksEndWhereMallocSays) {
  if (!is_known()) GTEST_SKIP() << kUnknown;
  Rng rng(11);
  std::vector<Block> blocks;
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = 1 + rng.below(rng.below(50) == 0 ? 1'000'000 : 3000);
    if (blocks.size() > 100) blocks[rng.below(blocks.size())] = allocate(bytes);
    else blocks.push_back(allocate(bytes));
    const Block& block = blocks[rng.below(blocks.size())];
    const size_t usable = malloc_usable_size(block.get());
    EXPECT_FALSE(fault_of(block.get(), usable).found()) << usable;
    const HeapFault fault = fault_of(block.get(), usable + 5);
    EXPECT_EQ(fault.excess, 5u) << usable;
    EXPECT_EQ(fault.bytes, usable);
  }
}

TEST(Heap, BuffersMayBeginWithinABlock) {
  if (!is_known()) GTEST_SKIP() << kUnknown;
  const Block block = allocate(1000);
  const size_t usable = malloc_usable_size(block.get());
  EXPECT_FALSE(fault_of(block.get() + 40, usable - 40).found());
  EXPECT_EQ(fault_of(block.get() + 40, usable).excess, 40u);
}

TEST(Heap, OneOfSeveralPieces) {
  if (!is_known()) GTEST_SKIP() << kUnknown;
  const Block one = allocate(64), two = allocate(64);
  Bytes pieces;
  for (const Block* block : {&one, &two}) {
    Bytes piece;
    const auto begin = reinterpret_cast<uintptr_t>(block->get());
    piece.ranges.push_back({begin, begin + 64});
    pieces.add(piece);
  }
  EXPECT_FALSE(find_heap_fault(pieces).found());
  pieces.ranges.back().end += 100;
  EXPECT_TRUE(find_heap_fault(pieces).found());
}

TEST(Heap, MemoryThatWasFreed) {
  if (!is_known()) GTEST_SKIP() << kUnknown;
  Block large = allocate(3000);  // too large for malloc's short lists, where blocks count as used
  const Block behind = allocate(16);
  void* const at = large.get();
  EXPECT_FALSE(fault_of(at, 8).found());
  large.reset();
  EXPECT_TRUE(fault_of(at, 8).freed);
}

TEST(Heap, NothingIsSaidOfOtherMemory) {
  static char of_the_program[64];
  char of_the_stack[64];
  EXPECT_FALSE(fault_of(of_the_program, 4096).found());
  EXPECT_FALSE(fault_of(of_the_stack, 4096).found());
  EXPECT_FALSE(fault_of(reinterpret_cast<void*>(16), 64).found());
}

}  // namespace
}  // namespace tern::check
