// Encryption of a TCP stream's blocks: what was sealed comes out, and nothing else does.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fabric/tcp/cipher.h"

namespace tern {
namespace {

struct Block {
  wire::BlockHead head;
  std::vector<std::byte> bytes;  // and the tag
};

Block seal(TcpCipher& cipher, const std::string& text, uint64_t acknowledged = 0) {
  Block block{wire::build_block(text.size(), acknowledged), std::vector<std::byte>(text.size() + TcpCipher::kTagBytes)};
  std::memcpy(block.bytes.data(), text.data(), text.size());
  cipher.seal(block.head, block.bytes.data());
  return block;
}

std::string text_of(const Block& block) {
  return std::string(reinterpret_cast<const char*>(block.bytes.data()), block.head.length);
}

TcpKey key(uint8_t seed) {
  TcpKey out;
  out.fill(seed);
  return out;
}

TEST(TcpCipher, WhatWasSealedComesOutInOrder) {
  TcpCipher sender, receiver;
  sender.begin(key(1));
  receiver.begin(key(1));
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, wire::kMaxBlockBytes}) {
    const std::string text(size, 'x');
    Block block = seal(sender, text, size);
    if (size > 16) {
      EXPECT_NE(text_of(block), text);
    }
    EXPECT_TRUE(receiver.open(block.head, block.bytes.data()));
    EXPECT_EQ(text_of(block), text);
  }
}

TEST(TcpCipher, EveryFlippedBitIsFound) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  TcpCipher sender;
  sender.begin(key(1));
  const Block sent = seal(sender, text, 5);
  const size_t head_bits = 8 * sizeof sent.head, bits = head_bits + 8 * sent.bytes.size();
  for (size_t bit = 0; bit < bits; ++bit) {
    Block block = sent;
    auto* at = bit < head_bits ? reinterpret_cast<std::byte*>(&block.head) : block.bytes.data() - head_bits / 8;
    if (bit >= 32 && bit < 64) continue;  // the length: the stream is cut elsewhere, not this block opened
    at[bit / 8] ^= std::byte(1u << bit % 8);
    TcpCipher receiver;
    receiver.begin(key(1));
    EXPECT_FALSE(receiver.open(block.head, block.bytes.data())) << "bit " << bit;
  }
}

TEST(TcpCipher, RepeatedLeftOutAndForeignBlocksAreRefused) {
  TcpCipher sender;
  sender.begin(key(1));
  Block first = seal(sender, "first"), second = seal(sender, "second");
  auto opens = [&](TcpCipher& receiver, Block block) { return receiver.open(block.head, block.bytes.data()); };
  TcpCipher again;
  again.begin(key(1));
  EXPECT_TRUE(opens(again, first));
  EXPECT_FALSE(opens(again, first));
  TcpCipher leaps;
  leaps.begin(key(1));
  EXPECT_FALSE(opens(leaps, second));
  TcpCipher stranger;
  stranger.begin(key(2));
  EXPECT_FALSE(opens(stranger, first));
}

}  // namespace
}  // namespace tern
