// A rank's TCP card: everything a peer needs to open a connection to it, and nothing secret. Published
// through the launcher's key-value space, so it may come from an older or newer library: versioned, and
// parsed defensively.
//
//   u32 magic | u16 version | u16 addresses | host identity 32 bytes | then per address (kAddressBytes):
//   u8 family (4, 6) | u8 prefix length | u16 port | u32 megabits per second | u8 flags | 3 zeros | 16 bytes
//   of address
//
// A newer version may append fields after the addresses it shares with this one; they are passed over.
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tern::wire {

/// One address of an interface, as seen on its host.
struct CardAddress {
  enum Flags : uint8_t { kLoopback = 1, kLinkLocal = 2 };

  uint8_t family = 4;         ///< 4 or 6
  uint8_t prefix_length = 0;  ///< bits that all hosts of its network share
  uint16_t port = 0;          ///< where the rank listens on this address, host byte order; never 0 in a parsed card
  uint32_t megabits = 0;      ///< speed of the interface; 0: it does not say
  uint8_t flags = 0;
  std::array<uint8_t, 16> bytes{};  ///< network byte order; the first 4 for IPv4, the rest 0

  bool loopback() const { return flags & kLoopback; }
  bool link_local() const { return flags & kLinkLocal; }
  bool operator==(const CardAddress&) const = default;
};

/// Where loopback addresses mean the same: one kernel (boot id) and one network namespace of it.
using HostIdentity = std::array<uint8_t, 32>;

struct Card {
  HostIdentity host{};
  std::vector<CardAddress> addresses;
};

inline constexpr uint16_t kCardVersion = 1;
/// More addresses than any host has use for; bounds what a hostile card can make us try.
inline constexpr size_t kMaxCardAddresses = 64;

std::string build_card(const Card& card);
/// Error: not a card, cut short, of a version we cannot read, or an address that cannot be. `card` is then
/// unspecified.
Error parse_card(std::string_view text, Card& card);

/// "10.0.0.1:4000", "[fd00::1]:4000".
std::string to_text(const CardAddress& address);

}  // namespace tern::wire
