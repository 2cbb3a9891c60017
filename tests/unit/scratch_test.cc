// Scratch memory: what it promises of its blocks.
#include "base/scratch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"

namespace tern {
namespace {

TEST(ScratchTest, ABlockGivenBackServesTheNext) {
  Scratch scratch;
  size_t bytes = 200'000;
  void* first = scratch.take(bytes);
  EXPECT_EQ(bytes, size_t{262144});
  scratch.give(first, bytes);
  size_t smaller = 131073, other = 131072;
  void* second = scratch.take(other);  // another size: not this block
  EXPECT_NE(second, first);
  void* third = scratch.take(smaller);
  EXPECT_EQ(third, first);
  scratch.give(second, other);
  scratch.give(third, smaller);
}

TEST(ScratchTest, BlocksAreLargeEnoughAlignedAndApart) {
  Scratch scratch;
  Rng rng(3);
  struct Held {
    unsigned char* data;
    size_t asked, bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  for (int i = 0; i < 2000; ++i) {
    if (held.size() > 20 || (!held.empty() && rng.chance(1, 2))) {
      size_t which = rng.below(held.size());
      Held h = held[which];
      EXPECT_EQ(h.data[0], h.mark);
      EXPECT_EQ(h.data[h.asked - 1], h.mark);
      scratch.give(h.data, h.bytes);
      held[which] = held.back();
      held.pop_back();
      continue;
    }
    size_t asked = 1 + rng.below(uint64_t{1} << (1 + rng.below(23))), bytes = asked;
    auto* data = static_cast<unsigned char*>(scratch.take(bytes));
    ASSERT_NE(data, nullptr);
    EXPECT_GE(bytes, asked);
    EXPECT_EQ(uintptr_t(data) % 64, 0u);
    held.push_back({data, asked, bytes, static_cast<unsigned char>(i)});
    std::memset(data, i & 0xff, asked);
  }
  for (Held& h : held) scratch.give(h.data, h.bytes);
}

TEST(ScratchTest, ABlockOfItsOwnReturnsAtItsEnd) {
  Scratch scratch;
  const std::byte* first = nullptr;
  {
    ScratchBlock block = scratch.block(1000), moved;
    first = block.data();
    moved = std::move(block);
    EXPECT_FALSE(block);
    EXPECT_EQ(moved.data(), first);
  }
  const ScratchBlock next = scratch.block(1000);
  EXPECT_EQ(next.data(), first);
  EXPECT_GE(next.size(), 1000u);
  EXPECT_FALSE(scratch.try_block(SIZE_MAX));
  EXPECT_THROW(scratch.block(SIZE_MAX), std::bad_alloc);
}

TEST(ScratchTest, MemoryThatCannotBeHadIsNull) {
  Scratch scratch;
  size_t bytes = SIZE_MAX;
  EXPECT_EQ(scratch.take(bytes), nullptr);
}

}  // namespace
}  // namespace tern
