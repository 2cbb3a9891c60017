// Fuzz target: the stream of frames of an established connection, through a real socket, cut into pieces that
// the input chooses. Whatever arrives, a message is delivered whole or not at all, and never more bytes than
// were sent.
#include <sys/socket.h>

#include "fabric/tcp/inbound.h"
#include "fabric/tcp/outbound.h"
#include "fabric/tcp/socket.h"
#include "fuzz.h"

using namespace tern;

namespace {

class CountingSink final : public Sink {
 public:
  void on_message(PeerId, const wire::Header&, const std::byte* payload, size_t bytes) override {
    count(payload, bytes);
  }
  Landing on_header(PeerId, const wire::Header& header, size_t bytes) override {
    TERN_FUZZ_CHECK(!landing_);
    landing_ = true;
    // The layer above bounds what it holds: here 64 KiB, the rest is thrown away.
    memory_.resize(std::min<size_t>(bytes, header.tag & 1 ? 100 : 65536));
    Landing landing;
    landing.target = Cursor::bytes(memory_.data(), memory_.size());
    return landing;
  }
  void on_landed(PeerId, const wire::Header&, Landing& landing, size_t, Error error) override {
    TERN_FUZZ_CHECK(landing_);
    landing_ = false;
    if (!error) {
      TERN_FUZZ_CHECK(landing.target.remaining() == 0);
      count(memory_.data(), memory_.size());
    }
  }
  void on_peer_lost(PeerId, Error) override {}
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
  TcpInbound inbound;
  CountingSink sink;
  static std::byte scratch[TcpOutbound::kScratchBytes];
  TcpInbound::State state = TcpInbound::State::idle;
  int handled = 0;
  for (size_t at = 1; at < bytes && (state == TcpInbound::State::idle || state == TcpInbound::State::more);) {
    ssize_t n = send(pair[0], data + at, std::min(piece, bytes - at), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) at += size_t(n);
    state = inbound.receive(pair[1], 0, sink, scratch, sizeof scratch, handled);
    TERN_FUZZ_CHECK(n > 0 || handled >= 0);
  }
  TERN_FUZZ_CHECK(sink.total <= bytes);
  inbound.abandon(0, sink, Error(ErrorClass::other, "over"));
  TERN_FUZZ_CHECK(!sink.landing_);
  shutdown(pair[0], SHUT_RDWR);
  Descriptor first(pair[0]), second(pair[1]);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  std::string stream(1, '\20');
  auto frame = [&](wire::FrameType type, size_t payload, uint64_t claimed) {
    wire::FrameHead head =
        wire::build_frame(type, {.kind = wire::Kind::eager, .tag = int32_t(payload)}, claimed);
    stream.append(reinterpret_cast<const char*>(&head), sizeof head);
    stream.append(payload, 'x');
  };
  std::vector<std::string> out;
  for (size_t payload : {0, 1, 8, 100, 3000, 20'000}) frame(wire::FrameType::message, payload, payload);
  out.push_back(stream);
  frame(wire::FrameType::goodbye, 0, 0);
  out.push_back(stream);
  stream.resize(1);
  frame(wire::FrameType::message, 10, wire::kMaxFramePayload);
  out.push_back(stream);
  stream[0] = '\377';
  for (int i = 0; i < 40; ++i) frame(wire::FrameType::message, 2000, 2000);
  out.push_back(stream);
  return out;
}
