// Fuzz target: the stream of frames of an established connection, through a real socket, cut into pieces that
// the input chooses. Whatever arrives, a message is delivered whole or not at all, and never more bytes than
// were sent.
#include <sys/socket.h>

#include "base/crc32c.h"
#include "fabric/ip/kernel_streams.h"
#include "fabric/tcp/inbound.h"
#include "fabric/tcp/outbound.h"
#include "fuzz.h"

using namespace tern;

namespace {

class CountingSink final : public Sink {
 public:
  void on_message(Lane&, const wire::Header&, const std::byte* payload, size_t bytes) override {
    count(payload, bytes);
  }
  Landing on_header(Lane&, const wire::Header& header, size_t bytes) override {
    TERN_FUZZ_CHECK(!landing_);
    landing_ = true;
    // The layer above bounds what it holds: here 64 KiB, the rest is thrown away.
    memory_.resize(std::min<size_t>(bytes, header.tag & 1 ? 100 : 65536));
    Landing landing;
    landing.target = Cursor::bytes(memory_.data(), memory_.size());
    return landing;
  }
  void on_landed(Lane&, const wire::Header&, Landing& landing, size_t, Error error) override {
    TERN_FUZZ_CHECK(landing_);
    landing_ = false;
    if (!error) {
      TERN_FUZZ_CHECK(landing.target.remaining() == 0);
      count(memory_.data(), memory_.size());
    }
  }
  void on_peer_lost(Lane&, Error) override {}
  size_t total = 0;
  bool landing_ = false;

 private:
  void count(const std::byte* payload, size_t n) {
    unsigned sum = 0;  // touches every byte, for the sanitizer
    for (size_t i = 0; i < n; ++i) sum += unsigned(payload[i]);
    sum_ = sum;
    total += n;
  }
  std::vector<std::byte> memory_;
  volatile unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2 || bytes > 150'000) return 0;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return 0;
  size_t piece = size_t(data[0]) * data[0] + 1;
  CountingSink sink;
  static std::byte scratch[TcpOutbound::kScratchBytes];
  // The input's second byte: with checksums or not, the first stream or a further one.
  struct PeerLane : Lane {
    using Lane::Lane;
  } lane{0};
  KernelStreams port;
  TcpInbound::Shared shared{port, lane, sink, scratch, sizeof scratch, (data[1] & 1) != 0, {}};
  TcpInbound inbound(shared, data[1] >> 1 & 1);
  TcpInbound::State state = TcpInbound::State::idle;
  int handled = 0;
  for (size_t at = 2; at < bytes && (state == TcpInbound::State::idle || state == TcpInbound::State::more);) {
    ssize_t n = send(pair[0], data + at, std::min(piece, bytes - at), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) at += size_t(n);
    state = inbound.receive(pair[1], handled);
    TERN_FUZZ_CHECK(n > 0 || handled >= 0);
    if (state == TcpInbound::State::waits) break;
  }
  // The connection breaks at the end, and the stream is gone on with from nowhere.
  inbound.drain(pair[1]);
  TERN_FUZZ_CHECK(inbound.received() <= bytes);
  (void)inbound.receive(pair[1], handled);
  TERN_FUZZ_CHECK(sink.total <= bytes);
  inbound.abandon(Error(ErrorClass::other, "over"));
  TERN_FUZZ_CHECK(!sink.landing_);
  shutdown(pair[0], SHUT_RDWR);
  Descriptor first(pair[0]), second(pair[1]);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  std::string stream("\20\0", 2);
  auto frame = [&](wire::FrameType type, size_t payload, uint64_t claimed) {
    wire::FrameHead head = wire::build_frame(type, {.kind = wire::Kind::eager, .tag = int32_t(payload)}, claimed);
    stream.append(reinterpret_cast<const char*>(&head), sizeof head);
    stream.append(payload, 'x');
  };
  std::vector<std::string> out;
  for (size_t payload : {0, 1, 8, 100, 3000, 20'000}) frame(wire::FrameType::message, payload, payload);
  out.push_back(stream);
  frame(wire::FrameType::goodbye, 0, 0);
  out.push_back(stream);
  {
    // The same with checksums, in blocks of 1000 bytes.
    std::string sealed("\20\1", 2);
    for (uint64_t at = 2; at < stream.size(); at += 1000) {
      std::string_view bytes = std::string_view(stream).substr(at, 1000);
      wire::BlockHead head = wire::build_block(bytes.size(), 0);
      uint64_t place = at - 2;
      head.crc = crc32c(&head.length, sizeof head - sizeof head.crc, crc32c(&place, sizeof place));
      head.crc = crc32c(bytes.data(), bytes.size(), head.crc);
      sealed.append(reinterpret_cast<const char*>(&head), sizeof head);
      sealed.append(bytes);
    }
    out.push_back(sealed);
  }
  stream.resize(2);
  {
    // A striped message: its table, the first part, a message behind it that must wait; and the second part.
    wire::StripeTable table{.header = {.kind = wire::Kind::eager}, .number = 7, .reserved = 0, .bytes = {5000, 3000}};
    wire::FrameHead head = wire::build_frame(wire::FrameType::stripe, {}, sizeof table);
    stream.append(reinterpret_cast<const char*>(&head), sizeof head);
    stream.append(reinterpret_cast<const char*>(&table), sizeof table);
    head = wire::build_frame(wire::FrameType::part, wire::make_control_header(wire::Kind(0), 7), 5000);
    stream.append(reinterpret_cast<const char*>(&head), sizeof head);
    stream.append(5000, 'p');
    frame(wire::FrameType::message, 8, 8);
    out.push_back(stream);
    stream = std::string("\20\2", 2);
    head = wire::build_frame(wire::FrameType::part, wire::make_control_header(wire::Kind(0), 7), 3000);
    stream.append(reinterpret_cast<const char*>(&head), sizeof head);
    stream.append(3000, 'p');
    out.push_back(stream);
  }
  stream.resize(2);
  stream[1] = 0;
  frame(wire::FrameType::message, 10, wire::kMaxFramePayload);
  out.push_back(stream);
  stream[0] = '\377';
  for (int i = 0; i < 40; ++i) frame(wire::FrameType::message, 2000, 2000);
  out.push_back(stream);
  return out;
}
