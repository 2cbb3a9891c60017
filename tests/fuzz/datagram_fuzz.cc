// Fuzz target: what comes by UDP. The input is a card, a datagram as it is, and the body of an authentic one: with the
// right seal it goes through the state machines of both protocols, which must stand whatever a peer says.
#include <sodium.h>

#include "fabric/udp/fragment_channel.h"
#include "fabric/udp/stream_channel.h"
#include "fuzz.h"

using namespace tern;

namespace {

class DeafPort final : public DatagramPort {
 public:
  void describe(wire::DatagramCard&) const override {}
  Error meet(PeerId, const wire::DatagramCard&) override { return {}; }
  size_t datagram_bytes(PeerId) const override { return 1472; }
  size_t buffer_bytes() const override { return 1 << 20; }
  size_t send(PeerId, int, const iovec* datagrams, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      const auto* bytes = static_cast<const uint8_t*>(datagrams[i].iov_base);
      for (size_t at = 0; at < datagrams[i].iov_len; ++at)
        sum_ = sum_ + bytes[at];  // touches every byte, for the sanitizer
    }
    return count;
  }
  size_t receive(Arrival*) override { return 0; }
  void ask_life(PeerId) override {}
  Life life(PeerId) override { return Life::unknown; }

 private:
  volatile unsigned sum_ = 0;
};

class BoundedSink final : public Sink {
 public:
  void on_message(Lane&, const wire::Header&, const std::byte* payload, size_t bytes) override {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; ++i) sum += unsigned(payload[i]);
    sum_ = sum;
  }
  Landing on_header(Lane&, const wire::Header&, size_t bytes) override {
    TERN_FUZZ_CHECK(!landing && bytes > kAlwaysWholeBytes);
    landing = true;
    memory_.resize(std::min<size_t>(bytes, 65536));
    Landing where;
    where.target = Cursor::bytes(memory_.data(), memory_.size());
    return where;
  }
  void on_landed(Lane&, const wire::Header&, Landing&, size_t, Error) override {
    TERN_FUZZ_CHECK(landing);
    landing = false;
  }
  void on_peer_lost(Lane&, Error) override {}
  bool landing = false;

 private:
  std::vector<std::byte> memory_;
  volatile unsigned sum_ = 0;
};

class FixedClock final : public Clock {
 public:
  uint64_t now_ns() override { return 1; }
};

// The pieces of the input, each a length, a type and a body, as authentic datagrams one after the other.
template <typename MakeChannel>
void converse(const uint8_t* data, size_t bytes, MakeChannel&& make) {
  static const UdpKey key{1, 2, 3};
  DeafPort port;
  BoundedSink sink;
  FixedClock clock;
  Counters counters;
  UdpShared shared{.self = {0, 0}, .port = port, .sink = sink, .clock = clock, .counters = &counters};
  struct PeerLane : Lane {
    using Lane::Lane;
  } lane{1};
  shared.window_bytes = 65536;
  shared.paper_window = 4;
  {
    UdpLink link{shared,
                 lane,
                 1,
                 DatagramSeal(key, {0, 0}, {}, {0, 1}, {}, nullptr, false),
                 DatagramSeal(key, {0, 1}, {}, {0, 0}, {}, nullptr, false),
                 1,
                 {}};
    auto channel = make(link);
    static std::byte text[10'000];
    SendOperation operation;
    operation.lane = &lane;
    operation.header = {.kind = wire::Kind::eager};
    operation.payload = Cursor::bytes(text, sizeof text);
    operation.done = [](SendOperation&, Error) {};
    channel->enqueue(operation, 1);
    (void)channel->try_send({.kind = wire::Kind::eager}, text, 10, 1);
    uint64_t now = 1;
    int handled = 0;
    while (bytes > 3) {
      const size_t length = std::min<size_t>(size_t(data[0]) | size_t(data[1]) << 8, bytes - 3);
      const uint8_t type = data[2];
      std::vector<std::byte> whole(sizeof(wire::DatagramHead) + length + wire::kDatagramTagBytes);
      std::memcpy(whole.data() + sizeof(wire::DatagramHead), data + 3, length);
      const wire::DatagramHead head{
          wire::kDatagramMagic, wire::DatagramType(type & 7), wire::kDatagramVersion, 1, 0, ++now};
      std::memcpy(whole.data(), &head, sizeof head);
      data += 3 + length;
      bytes -= 3 + length;
      wire::Datagram datagram;
      if (!wire::parse_datagram(whole.data(), whole.size(), datagram)) continue;
      TERN_FUZZ_CHECK(datagram.payload_bytes <= whole.size());
      // What a sound peer may announce is the layer above's to bound (credit); here memory is.
      if (head.type == wire::DatagramType::fragment && datagram.fragment.bytes > 1 << 24) continue;
      datagram.fragment.crc = FragmentChannel::crc_of(datagram.fragment, datagram.payload, datagram.payload_bytes);
      if (!channel->on_datagram(datagram, now * 1'000'000, handled)) break;
      channel->advance(now * 1'000'000, (type & 8) != 0);
    }
    channel->abandon(Error(ErrorClass::other, "over"));
    TERN_FUZZ_CHECK(!sink.landing);
    SendList out;
    channel->surrender(out);
    while (out.pop_front()) {
    }
    while (shared.finished.pop_front()) {
    }
  }
  TERN_FUZZ_CHECK(shared.pool.live() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const bool ready = sodium_init() >= 0;
  TERN_FUZZ_CHECK(ready);
  if (bytes > 100'000) return 0;
  wire::DatagramCard card;
  if (!wire::parse_datagram_card({reinterpret_cast<const char*>(data), bytes}, card)) {
    TERN_FUZZ_CHECK(wire::build_datagram_card(card).size() <= bytes + 64 * wire::kMaxCardChannels);
  }
  wire::Datagram datagram;
  (void)wire::parse_datagram(reinterpret_cast<const std::byte*>(data), bytes, datagram);
  static const UdpKey key{9};
  static const DatagramSeal seal(key, {0, 0}, {}, {0, 1}, {}, nullptr, false);
  if (bytes >= sizeof(wire::DatagramHead) + wire::kDatagramTagBytes) {
    std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(data),
                                reinterpret_cast<const std::byte*>(data) + bytes);
    TERN_FUZZ_CHECK(!seal.open(copy.data(), bytes, 1));
  }
  converse(data, bytes, [](UdpLink& link) { return std::make_unique<StreamChannel>(link, 1472); });
  converse(data, bytes, [](UdpLink& link) { return std::make_unique<FragmentChannel>(link); });
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  std::vector<std::string> out;
  wire::DatagramCard card;
  card.protocol = 2;
  card.channels.resize(2);
  card.channels[0].addresses.resize(3);
  for (auto& address : card.channels[0].addresses) address.port = 7;
  out.push_back(wire::build_datagram_card(card));

  auto piece = [](wire::DatagramType type, std::string_view body) {
    std::string text{char(body.size() & 255), char(body.size() >> 8), char(type)};
    return text.append(body);
  };
  auto raw = [](const auto& value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  using wire::DatagramType;
  std::string stream;
  uint64_t offset = 0;
  for (size_t bytes : {0, 5, 64, 3000}) {
    const wire::FrameHead head = wire::build_frame(wire::FrameType::message, {.kind = wire::Kind::eager}, bytes);
    const std::string frame = raw(head) + std::string(bytes, 'x');
    for (size_t at = 0; at < frame.size(); at += 1000) {
      stream += piece(DatagramType::stream, raw(wire::StreamHead{offset, 2, 100'000, 1, 5}) + frame.substr(at, 1000));
      offset += std::min<size_t>(1000, frame.size() - at);
    }
  }
  stream += piece(DatagramType::acknowledge, raw(wire::StreamHead{0, 8, 100'000, 1, 5}) + raw(wire::AckRange{2, 3}));
  out.push_back(stream);
  std::string fragments;
  for (uint64_t message : {0, 1, 2}) {
    for (uint32_t index : {0, 2, 1}) {
      const uint64_t bytes = 12'000;
      const size_t part = size_t(std::min<uint64_t>(index == 0 ? wire::kFirstFragmentBytes : wire::kFragmentBytes,
                                                    bytes - wire::fragment_offset(index)));
      fragments += piece(DatagramType::fragment,
                         raw(wire::FragmentHead{message, bytes, index, 0, 0, 0, {.kind = wire::Kind::eager}}) +
                             std::string(part, 'f'));
    }
  }
  for (uint64_t message : {0, 1}) fragments += piece(DatagramType::ack, raw(wire::FragmentAnswer{message, 0, 0}));
  fragments += piece(DatagramType::nack, raw(wire::FragmentAnswer{0, 1, 0}));
  out.push_back(fragments);
  return out;
}
