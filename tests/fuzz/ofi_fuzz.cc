// Fuzz target: what comes over libfabric: a rank's card, and frames.
#include <cstring>

#include "fuzz.h"
#include "wire/ofi.h"

using namespace tern;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* start = reinterpret_cast<const std::byte*>(data);
  wire::OfiCard card;
  if (!wire::parse_ofi_card({reinterpret_cast<const char*>(data), bytes}, card)) {
    TERN_FUZZ_CHECK(wire::build_ofi_card(card).size() <= bytes);
    TERN_FUZZ_CHECK(!card.address.empty() && card.address.size() <= wire::kMaxOfiAddress);
  }
  wire::OfiFrame frame;
  if (wire::parse_ofi_frame(start, bytes, frame)) {
    TERN_FUZZ_CHECK(frame.bytes <= bytes && frame.bytes <= wire::ofi_stride(frame.bytes));
    TERN_FUZZ_CHECK(frame.payload >= start && frame.payload + frame.payload_bytes == start + frame.bytes);
    TERN_FUZZ_CHECK(frame.type != wire::OfiFrameType::first || frame.message_bytes > frame.payload_bytes);
    std::vector<std::byte> again(wire::kOfiMaxHeadBytes);
    const size_t head = wire::build_ofi_frame(frame, again.data());
    TERN_FUZZ_CHECK(head + frame.payload_bytes == frame.bytes && std::memcmp(start, again.data(), head) == 0);
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  wire::OfiCard card;
  card.provider = "tcp;ofi_rxm";
  card.format = "1";
  card.address = std::string(16, 'a');
  std::vector<std::string> out = {"", wire::build_ofi_card(card)};
  for (auto type :
       {wire::OfiFrameType::whole, wire::OfiFrameType::first, wire::OfiFrameType::more, wire::OfiFrameType::ping,
        wire::OfiFrameType::pong, wire::OfiFrameType::landed, wire::OfiFrameType::wake}) {
    std::string text(wire::kOfiMaxHeadBytes + 20, 'x');
    wire::OfiFrame frame;
    frame.type = type;
    frame.payload_bytes = wire::is_numbered(type)              ? 20
                          : type == wire::OfiFrameType::landed ? sizeof(wire::OfiLanded)
                                                               : 0;
    frame.header = wire::make_control_header(wire::Kind::eager, 1);
    frame.message_bytes = 1000;
    const size_t head = wire::build_ofi_frame(frame, reinterpret_cast<std::byte*>(text.data()));
    text.resize(head + frame.payload_bytes);
    out.push_back(text);
  }
  return out;
}
