// The parts of a simulated adapter that need no network: which contexts it keeps (sim/adapter_cache.h), and where the
// bytes of a list of pieces go (sim/adapter_memory.h).
#include <gtest/gtest.h>

#include "sim/adapter_cache.h"
#include "sim/adapter_memory.h"

namespace tern::sim {
namespace {

TEST(AdapterCache, KeepsThoseUsedLast) {
  AdapterCache cache(2);
  EXPECT_TRUE(cache.load(1));
  EXPECT_TRUE(cache.load(2));
  EXPECT_FALSE(cache.load(1));
  EXPECT_TRUE(cache.load(3));  // in place of 2
  EXPECT_FALSE(cache.load(1));
  EXPECT_TRUE(cache.load(2));
  EXPECT_EQ(cache.misses(), 4u);
}

TEST(AdapterCache, WhatIsDroppedIsLoadedAgain) {
  AdapterCache cache(2);
  cache.load(1);
  cache.drop(1);
  cache.drop(7);  // never loaded
  EXPECT_TRUE(cache.load(1));
}

TEST(AdapterMemory, BytesGoAcrossPieces) {
  std::byte first[3]{}, second[4]{};
  const AdapterMemory::Pieces pieces = {
      {reinterpret_cast<uint64_t>(first), 3, 0}, {0, 0, 0}, {reinterpret_cast<uint64_t>(second), 4, 0}};
  const std::byte data[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  AdapterMemory::write(pieces, 2, data, 4);
  EXPECT_EQ(first[1], std::byte{0});
  EXPECT_EQ(first[2], std::byte{1});
  EXPECT_EQ(second[2], std::byte{4});
  EXPECT_EQ(second[3], std::byte{0});
  std::byte back[4]{};
  AdapterMemory::read(pieces, 2, back, 4);
  EXPECT_EQ(std::memcmp(back, data, 4), 0);
  // Beyond the last piece nothing is touched.
  AdapterMemory::write(pieces, 6, data, 4);
  EXPECT_EQ(second[3], std::byte{1});
}

TEST(AdapterMemory, NoBytesNeedNoMemory) {
  AdapterMemory memory;
  AdapterMemory::write({}, 0, nullptr, 0);
  memory.settle_word();  // none is held
  uint64_t word = 5;
  EXPECT_EQ(memory.load_word(reinterpret_cast<uint64_t>(&word)), 5u);
}

}  // namespace
}  // namespace tern::sim
