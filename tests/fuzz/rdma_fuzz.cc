// Fuzz target: what comes over RDMA: a rank's card, a greeting, and frames.
#include <cstring>

#include "fuzz.h"
#include "wire/rdma.h"

using namespace tern;

namespace {

const uint8_t kKey[32] = {1, 2, 3};

std::string greeting_text(const wire::RdmaGreeting& greeting) {
  std::string out(wire::kRdmaGreetingBytes, '\0');
  wire::build_rdma_greeting(greeting, kKey, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* start = reinterpret_cast<const std::byte*>(data);
  wire::RdmaCard card;
  if (!wire::parse_rdma_card({reinterpret_cast<const char*>(data), bytes}, card)) {
    TERN_FUZZ_CHECK(wire::build_rdma_card(card).size() <= bytes);
  }
  wire::RdmaGreeting greeting;
  if (wire::parse_rdma_greeting(start, bytes, kKey, greeting)) {
    TERN_FUZZ_CHECK(greeting.window > 0 && greeting.frame_bytes > wire::kRdmaMaxHeadBytes);
    wire::RdmaGreeting again;
    std::string text = greeting_text(greeting);
    TERN_FUZZ_CHECK(
        wire::parse_rdma_greeting(reinterpret_cast<const std::byte*>(text.data()), text.size(), kKey, again));
  }
  wire::RdmaFrame frame;
  if (wire::parse_rdma_frame(start, bytes, frame)) {
    TERN_FUZZ_CHECK(frame.payload >= start && frame.payload + frame.payload_bytes == start + bytes);
    TERN_FUZZ_CHECK(frame.type != wire::RdmaFrameType::first || frame.message_bytes > frame.payload_bytes);
  }
  wire::RdmaChange change;
  if (wire::parse_rdma_change(start, bytes, change)) {
    std::byte again[wire::kRdmaChangeBytes];
    wire::build_rdma_change(change, again);
    TERN_FUZZ_CHECK(std::memcmp(start, again, sizeof again) == 0);
  }
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  std::vector<std::string> out = {"", wire::build_rdma_card({})};
  wire::RdmaGreeting greeting;
  greeting.from = {1, 1};
  greeting.to = {1, 2};
  greeting.frame_bytes = 8256;
  greeting.window = 32;
  out.push_back(greeting_text(greeting));
  for (auto type : {wire::RdmaFrameType::whole, wire::RdmaFrameType::first, wire::RdmaFrameType::more,
                    wire::RdmaFrameType::credit, wire::RdmaFrameType::last, wire::RdmaFrameType::change}) {
    std::string text(wire::kRdmaMaxHeadBytes + 20, 'x');
    wire::RdmaFrame frame;
    frame.type = type;
    frame.payload_bytes = type == wire::RdmaFrameType::credit || type == wire::RdmaFrameType::last ? 0 : 20;
    frame.credits = 3;
    frame.header = wire::make_control_header(wire::Kind::eager, 1);
    frame.message_bytes = 1000;
    size_t head = wire::build_rdma_frame(frame, reinterpret_cast<std::byte*>(text.data()));
    text.resize(head + frame.payload_bytes);
    out.push_back(text);
  }
  std::string change(wire::kRdmaChangeBytes, '\0');
  wire::RdmaChange offer;
  offer.entries = 16;
  offer.entry_bytes = 4096;
  wire::build_rdma_change(offer, reinterpret_cast<std::byte*>(change.data()));
  out.push_back(change);
  return out;
}
