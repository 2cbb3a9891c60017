#include "wire/card.h"

#include <arpa/inet.h>

#include "base/assert.h"
#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr uint32_t kTcpCardMagic = 0x43505354;  // "TSPC" in memory order: Tern's stream path card
constexpr size_t kAddressBytes = 28;

Error bad_tcp_card(const char* what) { return Error(ErrorClass::intern, std::string("the peer's TCP card ") + what); }

}  // namespace

std::string build_card(const Card& card) {
  TERN_ASSERT(card.addresses.size() <= kMaxCardAddresses);
  Writer out;
  out.integer(kTcpCardMagic);
  out.integer(kCardVersion);
  out.integer(uint16_t(card.addresses.size()));
  out.bytes(card.host.data(), card.host.size());
  for (const CardAddress& address : card.addresses) {
    out.integer(address.family);
    out.integer(address.prefix_length);
    out.integer(address.port);
    out.integer(address.megabits);
    out.integer(address.flags);
    out.bytes("\0\0\0", 3);
    out.bytes(address.bytes.data(), address.bytes.size());
  }
  return out.take();
}

Error parse_card(std::string_view text, Card& card) {
  Reader in(text);
  if (in.integer<uint32_t>() != kTcpCardMagic) return bad_tcp_card("is not one");
  uint16_t version = in.integer<uint16_t>();
  uint16_t count = in.integer<uint16_t>();
  in.bytes(card.host.data(), card.host.size());
  if (!in.ok()) return bad_tcp_card("is cut short");
  if (version < 1) return bad_tcp_card("has no version");
  if (count > kMaxCardAddresses || count * kAddressBytes > in.left())
    return bad_tcp_card("promises more addresses than it has");
  card.addresses.clear();
  for (uint16_t i = 0; i < count; ++i) {
    CardAddress address;
    address.family = in.integer<uint8_t>();
    address.prefix_length = in.integer<uint8_t>();
    address.port = in.integer<uint16_t>();
    address.megabits = in.integer<uint32_t>();
    address.flags = in.integer<uint8_t>();
    in.skip(3);
    in.bytes(address.bytes.data(), address.bytes.size());
    // A family that a later version may add is passed over, not refused: the card's other addresses still
    // serve.
    if (address.family != 4 && address.family != 6) continue;
    if (address.prefix_length > (address.family == 4 ? 32 : 128))
      return bad_tcp_card("has an impossible prefix length");
    if (address.port == 0) return bad_tcp_card("has an address without a port");
    card.addresses.push_back(address);
  }
  TERN_ASSERT(in.ok());
  return {};
}

std::string to_text(const CardAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  std::string host = address.family == 4 ? std::string(text) : "[" + std::string(text) + "]";
  return host + ":" + std::to_string(address.port);
}

}  // namespace tern::wire
