// Fuzz target: a peer's TCP card, as it comes out of the launcher's key-value space, and the choice made from
// it.
#include "fabric/ip/interfaces.h"
#include "fuzz.h"
#include "wire/card.h"

using namespace tern;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  wire::Card card;
  Error error = wire::parse_card({reinterpret_cast<const char*>(data), bytes}, card);
  if (error) return 0;
  // What is accepted survives a round trip, and everything made of it is in range.
  wire::Card again;
  TERN_FUZZ_CHECK(!wire::parse_card(wire::build_card(card), again));
  TERN_FUZZ_CHECK(again.addresses == card.addresses && again.host == card.host);
  std::vector<LocalAddress> ours(3);
  ours[0] = {"lo", 1, {4, 8, 1, 0, wire::CardAddress::kLoopback, {127, 0, 0, 1}}};
  ours[1] = {"eth0", 2, {4, 24, 1, 0, 0, {10, 0, 0, 1}}};
  ours[2] = {"eth0", 2, {6, 64, 1, 0, wire::CardAddress::kLinkLocal, {0xfe, 0x80}}};
  auto candidates = rank_candidates(ours, {}, card);
  TERN_FUZZ_CHECK(candidates.size() <= card.addresses.size() * ours.size());
  for (auto& candidate : candidates) {
    SocketAddress address(candidate.address, candidate.scope);
    TERN_FUZZ_CHECK(address.bytes != 0 && address.port() != 0 && !address.text().empty());
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  wire::Card card;
  card.host.fill(3);
  std::vector<std::string> out = {"", wire::build_card(card)};
  for (int i = 0; i < 5; ++i) {
    wire::CardAddress address;
    address.family = i % 2 ? 6 : 4;
    address.prefix_length = uint8_t(8 * i);
    address.port = uint16_t(4000 + i);
    address.bytes = {uint8_t(i % 2 ? 0xfe : 10), uint8_t(i % 2 ? 0x80 : 0), 0, uint8_t(i)};
    address.flags = uint8_t(i % 3);
    card.addresses.push_back(address);
  }
  out.push_back(wire::build_card(card));
  return out;
}
