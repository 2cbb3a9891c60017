// Cards, greetings and frames of the rdma path: what is built is understood, what is wrong is refused.
#include "wire/rdma.h"

#include <gtest/gtest.h>

#include <vector>

namespace tern::wire {
namespace {

const uint8_t kKey[32] = {9, 8, 7};

RdmaGreeting example() {
  RdmaGreeting greeting;
  greeting.kind = RdmaGreeting::Kind::welcome;
  greeting.from = {11, 5};
  greeting.to = {uint64_t{1} << 63, 70'000};
  for (size_t i = 0; i < kRdmaAddressBytes; ++i) greeting.address.bytes[i] = uint8_t(i);
  greeting.frame_bytes = 8256;
  greeting.window = 32;
  return greeting;
}

TEST(RdmaWire, CardsComeBackAndOtherVersionsAreNamed) {
  RdmaCard whole, parsed;
  whole.greetings = example().address;
  whole.datagrams = true;
  whole.messages.bytes[47] = 3;
  whole.salt = {1, 2, 3};
  std::string card = build_rdma_card(whole);
  ASSERT_FALSE(parse_rdma_card(card, parsed));
  EXPECT_EQ(std::memcmp(parsed.greetings.bytes, whole.greetings.bytes, kRdmaAddressBytes), 0);
  EXPECT_EQ(std::memcmp(parsed.messages.bytes, whole.messages.bytes, kRdmaAddressBytes), 0);
  EXPECT_EQ(parsed.salt, whole.salt);
  EXPECT_TRUE(parsed.datagrams && !parsed.aes);
  std::string other = card;
  other[4] = 9;
  EXPECT_NE(std::string(parse_rdma_card(other, parsed).text()).find("version 9"), std::string::npos);
  for (size_t n = 0; n < card.size(); ++n) EXPECT_TRUE(bool(parse_rdma_card({card.data(), n}, parsed)));
}

TEST(RdmaWire, GreetingsCountOnlyWithTheJobsKeyAndUnchanged) {
  std::vector<std::byte> bytes(kRdmaGreetingBytes);
  build_rdma_greeting(example(), kKey, bytes.data());
  RdmaGreeting parsed;
  ASSERT_TRUE(parse_rdma_greeting(bytes.data(), bytes.size(), kKey, parsed));
  EXPECT_EQ(parsed.kind, RdmaGreeting::Kind::welcome);
  EXPECT_EQ(parsed.from, example().from);
  EXPECT_EQ(parsed.to, example().to);
  EXPECT_EQ(parsed.frame_bytes, 8256u);
  EXPECT_EQ(parsed.window, 32u);
  EXPECT_EQ(parsed.address.bytes[47], 47);
  const uint8_t other[32] = {9, 8, 6};
  EXPECT_FALSE(parse_rdma_greeting(bytes.data(), bytes.size(), other, parsed));
  EXPECT_FALSE(parse_rdma_greeting(bytes.data(), bytes.size() - 1, kKey, parsed));
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_FALSE(parse_rdma_greeting(bytes.data(), bytes.size(), kKey, parsed)) << "byte " << at;
    bytes[at] ^= std::byte{0x10};
  }
}

TEST(RdmaWire, FramesComeBackAndWrongLengthsAreRefused) {
  for (RdmaFrameType type : {RdmaFrameType::whole, RdmaFrameType::first, RdmaFrameType::more, RdmaFrameType::credit,
                             RdmaFrameType::last, RdmaFrameType::change}) {
    size_t payload = type == RdmaFrameType::credit || type == RdmaFrameType::last ? 0 : 100;
    std::vector<std::byte> bytes(kRdmaMaxHeadBytes + payload, std::byte{7});
    RdmaFrame out;
    out.type = type;
    out.epoch = 200;
    out.credits = 17;
    out.credit_epoch = 201;
    out.source = 70'000;
    out.incarnation = 9;
    out.payload_bytes = payload;
    out.header = make_header(Kind::rts, 3, 99, 4, 5);
    out.message_bytes = 5000;
    size_t head = build_rdma_frame(out, bytes.data());
    ASSERT_EQ(head, rdma_head_bytes(type));
    bytes.resize(head + payload);
    RdmaFrame frame;
    ASSERT_TRUE(parse_rdma_frame(bytes.data(), bytes.size(), frame));
    EXPECT_EQ(frame.type, type);
    EXPECT_EQ(frame.epoch, 200);
    EXPECT_EQ(frame.credits, 17);
    EXPECT_EQ(frame.credit_epoch, 201);
    EXPECT_EQ(frame.source, 70'000u);
    EXPECT_EQ(frame.incarnation, 9);
    EXPECT_EQ(frame.payload_bytes, payload);
    EXPECT_EQ(frame.payload, bytes.data() + head);
    EXPECT_EQ(frame.message_bytes, type == RdmaFrameType::first ? 5000u : payload);
    EXPECT_EQ(frame.header.tag, head > kRdmaFrameHeadBytes ? 4 : 0);
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_rdma_frame(bytes.data(), n, frame)) << n;
    bytes[15] = std::byte{1};
    EXPECT_FALSE(parse_rdma_frame(bytes.data(), bytes.size(), frame));
    bytes[15] = std::byte{};
    bytes[0] = std::byte{9};
    EXPECT_FALSE(parse_rdma_frame(bytes.data(), bytes.size(), frame));
  }
}

TEST(RdmaWire, ChangesComeBackAndRingsThatHoldNoFrameAreRefused) {
  RdmaChange change;
  change.step = RdmaChange::Step::accept;
  change.kind = 2;
  change.epoch = 255;
  change.has_pair = true;
  change.entries = 16;
  change.entry_bytes = 4096;
  change.key = 77;
  change.address = 0x1234567890;
  change.pair = example().address;
  std::vector<std::byte> bytes(kRdmaChangeBytes);
  build_rdma_change(change, bytes.data());
  RdmaChange parsed;
  ASSERT_TRUE(parse_rdma_change(bytes.data(), bytes.size(), parsed));
  EXPECT_EQ(parsed.step, change.step);
  EXPECT_EQ(parsed.kind, 2);
  EXPECT_EQ(parsed.epoch, 255);
  EXPECT_TRUE(parsed.has_pair);
  EXPECT_EQ(parsed.entries, 16u);
  EXPECT_EQ(parsed.entry_bytes, 4096u);
  EXPECT_EQ(parsed.key, 77u);
  EXPECT_EQ(parsed.address, change.address);
  EXPECT_EQ(std::memcmp(parsed.pair.bytes, change.pair.bytes, kRdmaAddressBytes), 0);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_rdma_change(bytes.data(), n, parsed)) << n;
  auto refused = [&](auto wrong) {
    RdmaChange bad = change;
    wrong(bad);
    build_rdma_change(bad, bytes.data());
    EXPECT_FALSE(parse_rdma_change(bytes.data(), bytes.size(), parsed));
  };
  refused([](RdmaChange& bad) { bad.step = RdmaChange::Step(0); });
  refused([](RdmaChange& bad) { bad.step = RdmaChange::Step(12); });
  refused([](RdmaChange& bad) { bad.entry_bytes = 40; });
  refused([](RdmaChange& bad) { bad.entry_bytes = 4098; });
  refused([](RdmaChange& bad) { bad.address += 4; });
  refused([](RdmaChange& bad) {
    bad.step = RdmaChange::Step::offer;
    bad.entries = 0;
  });
}

}  // namespace
}  // namespace tern::wire
