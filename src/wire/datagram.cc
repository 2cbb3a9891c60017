#include "wire/datagram.h"

#include "base/assert.h"
#include "wire/bytes.h"

namespace tern::wire {
namespace {

constexpr uint32_t kUdpCardMagic = 0x43505544;  // "DUPC" in memory order
constexpr uint16_t kUdpCardVersion = 2;

Error bad_udp_card(const char* what) { return Error(ErrorClass::intern, std::string("the peer's UDP card ") + what); }

}  // namespace

bool parse_datagram_head(const std::byte* data, size_t bytes, DatagramHead& head) {
  if (bytes < sizeof head + kDatagramTagBytes) return false;
  std::memcpy(&head, data, sizeof head);
  return head.magic == kDatagramMagic && head.version == kDatagramVersion && head.number != 0 &&
         head.type >= DatagramType::stream && head.type <= DatagramType::introduction;
}

bool parse_datagram(const std::byte* data, size_t bytes, Datagram& out) {
  if (!parse_datagram_head(data, bytes, out.head)) return false;
  Reader in(data + sizeof(DatagramHead), bytes - sizeof(DatagramHead) - kDatagramTagBytes);
  out.range_count = 0;
  out.payload_bytes = 0;
  switch (out.head.type) {
    case DatagramType::stream:
    case DatagramType::acknowledge:
      in.bytes(&out.stream, sizeof out.stream);
      if (!in.ok() || out.stream.run >= (out.stream.largest == 0 ? 1 : out.stream.largest)) return false;
      if (out.head.type == DatagramType::acknowledge) {
        out.range_count = in.left() / sizeof(AckRange);
        if (out.range_count > kMaxAckRanges || in.left() % sizeof(AckRange) != 0) return false;
        in.bytes(out.ranges, out.range_count * sizeof(AckRange));
        return true;
      }
      break;
    case DatagramType::fragment: {
      in.bytes(&out.fragment, sizeof out.fragment);
      const FragmentHead& fragment = out.fragment;
      if (!in.ok() || fragment.bytes > kMaxFragmentedBytes || fragment.index >= fragment_count(fragment.bytes))
        return false;
      const uint64_t offset = fragment_offset(fragment.index);
      const uint64_t whole = fragment.index == 0 ? kFirstFragmentBytes : kFragmentBytes;
      const uint64_t rest = fragment.bytes - offset;
      if (in.left() != (rest < whole ? rest : whole) || uint8_t(fragment.header.kind) == 0) return false;
      break;
    }
    case DatagramType::ack:
    case DatagramType::nack: in.bytes(&out.answer, sizeof out.answer); return in.ok() && in.left() == 0;
    case DatagramType::introduction:
      in.bytes(&out.introduction, sizeof out.introduction);
      return in.ok() && in.left() == 0;
  }
  out.payload_bytes = in.left();
  out.payload = data + bytes - kDatagramTagBytes - out.payload_bytes;
  return true;
}

std::string build_datagram_card(const DatagramCard& card) {
  TERN_ASSERT(card.channels.size() <= kMaxCardChannels);
  Writer out;
  out.integer(kUdpCardMagic);
  out.integer(kUdpCardVersion);
  out.integer(card.protocol);
  out.integer(card.flags);
  out.bytes(card.salt.data(), card.salt.size());
  out.bytes(card.exchange.data(), card.exchange.size());
  out.integer(uint8_t(card.channels.size()));
  for (const Card& channel : card.channels) {
    std::string text = build_card(channel);
    out.integer(uint16_t(text.size()));
    out.text(text);
  }
  return out.take();
}

Error parse_datagram_card(std::string_view text, DatagramCard& card) {
  Reader in(text);
  if (in.integer<uint32_t>() != kUdpCardMagic) return bad_udp_card("is not one");
  if (in.integer<uint16_t>() != kUdpCardVersion)
    return bad_udp_card("is of another version of Tern: install the same on every host");
  card.protocol = in.integer<uint8_t>();
  card.flags = in.integer<uint8_t>();
  in.bytes(card.salt.data(), card.salt.size());
  in.bytes(card.exchange.data(), card.exchange.size());
  const size_t count = in.integer<uint8_t>();
  if (!in.ok() || count > kMaxCardChannels) return bad_udp_card("is cut short");
  card.channels.assign(count, {});
  for (Card& channel : card.channels) {
    std::string_view part = in.text(in.integer<uint16_t>());
    if (!in.ok()) return bad_udp_card("is cut short");
    if (Error error = parse_card(part, channel)) return error;
  }
  return {};
}

}  // namespace tern::wire
