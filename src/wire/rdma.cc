#include "wire/rdma.h"

#include <sodium.h>

#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr uint32_t kRdmaCardMagic = 0x52647254;  // "TrdR"
constexpr uint32_t kGreetingMagic = 0x47647254;  // "TrdG"
constexpr uint16_t kRdmaVersion = 4;
constexpr uint8_t kCardDatagrams = 1, kCardAes = 2;  // flags
constexpr size_t kSignedBytes = kRdmaGreetingBytes - 32;

void sign(const std::byte* data, const uint8_t* key, uint8_t* out) {
  crypto_generichash(out, 32, reinterpret_cast<const unsigned char*>(data), kSignedBytes, key, 32);
}

}  // namespace

std::string build_rdma_card(const RdmaCard& card) {
  Writer out;
  out.integer(kRdmaCardMagic);
  out.integer(kRdmaVersion);
  out.integer(uint8_t((card.datagrams ? kCardDatagrams : 0) | (card.aes ? kCardAes : 0)));
  out.integer(uint8_t{0});
  out.bytes(card.greetings.bytes, sizeof card.greetings.bytes);
  out.bytes(card.messages.bytes, sizeof card.messages.bytes);
  out.bytes(card.salt.data(), card.salt.size());
  return out.take();
}

Error parse_rdma_card(std::string_view text, RdmaCard& card) {
  Reader in(text);
  uint32_t magic = in.integer<uint32_t>();
  uint16_t version = in.integer<uint16_t>();
  const uint8_t flags = in.integer<uint8_t>();
  in.skip(1);
  in.bytes(card.greetings.bytes, sizeof card.greetings.bytes);
  in.bytes(card.messages.bytes, sizeof card.messages.bytes);
  in.bytes(card.salt.data(), card.salt.size());
  card.datagrams = flags & kCardDatagrams;
  card.aes = flags & kCardAes;
  if (magic != kRdmaCardMagic) return Error(ErrorClass::other, "what the peer published is no RDMA address");
  if (version != kRdmaVersion) {
    return Error(ErrorClass::other, "the peer's RDMA address has version " + std::to_string(version) + ", ours is " +
                                        std::to_string(kRdmaVersion) + ": use the same library on all ranks");
  }
  if (!in.ok()) return Error(ErrorClass::other, "the peer's RDMA address is cut short");
  return {};
}

void build_rdma_greeting(const RdmaGreeting& greeting, const uint8_t* key, std::byte* out) {
  Writer writer;
  writer.integer(kGreetingMagic);
  writer.integer(kRdmaVersion);
  writer.integer(uint8_t(greeting.kind));
  writer.integer(greeting.base);
  for (const RankName& name : {greeting.from, greeting.to}) {
    writer.integer(name.job);
    writer.integer(name.rank);
  }
  writer.bytes(greeting.address.bytes, sizeof greeting.address.bytes);
  writer.integer(greeting.frame_bytes);
  writer.integer(greeting.window);
  writer.integer(greeting.incarnation);
  writer.integer(greeting.call);
  std::string text = writer.take();
  std::memcpy(out, text.data(), kSignedBytes);
  sign(out, key, reinterpret_cast<uint8_t*>(out) + kSignedBytes);
}

bool parse_rdma_greeting(const std::byte* data, size_t bytes, const uint8_t* key, RdmaGreeting& greeting) {
  if (bytes != kRdmaGreetingBytes) return false;
  uint8_t expected[32];
  sign(data, key, expected);
  if (sodium_memcmp(expected, data + kSignedBytes, sizeof expected) != 0) return false;
  Reader in(data, bytes);
  if (in.integer<uint32_t>() != kGreetingMagic || in.integer<uint16_t>() != kRdmaVersion) return false;
  greeting.kind = RdmaGreeting::Kind(in.integer<uint8_t>());
  greeting.base = in.integer<uint8_t>();
  for (RankName* name : {&greeting.from, &greeting.to}) {
    name->job = in.integer<uint64_t>();
    name->rank = in.integer<uint32_t>();
  }
  in.bytes(greeting.address.bytes, sizeof greeting.address.bytes);
  greeting.frame_bytes = in.integer<uint32_t>();
  greeting.window = in.integer<uint32_t>();
  greeting.incarnation = in.integer<uint32_t>();
  greeting.call = in.integer<uint32_t>();
  const bool known = greeting.kind == RdmaGreeting::Kind::hello || greeting.kind == RdmaGreeting::Kind::welcome;
  return known && in.ok() && greeting.frame_bytes > kRdmaMaxHeadBytes && greeting.window > 0 &&
         greeting.call < kRdmaMaxRanks;
}

void build_rdma_change(const RdmaChange& change, std::byte* out) {
  Writer writer;
  writer.integer(uint8_t(change.step));
  writer.integer(change.kind);
  writer.integer(change.epoch);
  writer.integer(uint8_t(change.has_pair));
  writer.integer(change.entries);
  writer.integer(change.entry_bytes);
  writer.integer(change.key);
  writer.integer(change.address);
  writer.bytes(change.pair.bytes, sizeof change.pair.bytes);
  std::string text = writer.take();
  text.copy(reinterpret_cast<char*>(out), kRdmaChangeBytes);
}

bool parse_rdma_change(const std::byte* data, size_t bytes, RdmaChange& change) {
  if (bytes != kRdmaChangeBytes) return false;
  Reader in(data, bytes);
  const uint8_t step = in.integer<uint8_t>();
  change.step = RdmaChange::Step(step);
  change.kind = in.integer<uint8_t>();
  change.epoch = in.integer<uint8_t>();
  const uint8_t flags = in.integer<uint8_t>();
  change.has_pair = flags != 0;
  change.entries = in.integer<uint32_t>();
  change.entry_bytes = in.integer<uint32_t>();
  change.key = in.integer<uint32_t>();
  change.address = in.integer<uint64_t>();
  in.bytes(change.pair.bytes, sizeof change.pair.bytes);
  if (step < 1 || step > 11 || flags > 1) return false;
  // A ring of entries that hold a frame each, at an address where arrival words are whole.
  if (change.entry_bytes != 0 && (change.entry_bytes < kRdmaMaxHeadBytes + kRdmaArrivalBytes + 8 ||
                                  change.entry_bytes % 8 != 0 || change.address % 8 != 0))
    return false;
  return change.step != RdmaChange::Step::offer || change.entries != 0;
}

}  // namespace tern::wire
