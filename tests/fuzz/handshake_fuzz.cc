// Fuzz target: what strangers say to a listener, and what answers a caller. The first byte chooses the side,
// the second the size of the pieces. Nobody without the key gets further than silence.
#include <algorithm>

#include "fabric/tcp/handshake.h"
#include "fuzz.h"
#include "wire/header.h"

using namespace tern;

namespace {

TcpIdentity identity(PeerId rank) {
  TcpIdentity out;
  out.name.rank = rank;
  out.key.fill(5);
  out.version = wire::kVersion;
  out.agreement = "shm_ring_bytes=65536\n";
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2) return 0;
  TcpIdentity self = identity(1);
  bool caller = data[0] & 1;
  size_t piece = size_t(data[1]) + 1;
  TcpHandshake handshake = caller ? TcpHandshake(self, {0, 0}) : TcpHandshake(self);
  handshake.output().clear();
  for (size_t at = 2; at < bytes && handshake.state() == TcpHandshake::State::talking;) {
    size_t need = handshake.need();
    TERN_FUZZ_CHECK(need != 0 && need <= wire::kHandshakePrefixBytes + wire::kMaxHandshakeBody + wire::kProofBytes);
    size_t n = std::min({piece, need, bytes - at});
    handshake.feed(reinterpret_cast<const std::byte*>(data) + at, n);
    at += n;
  }
  // The nonce of this side is new every time: no recorded input can be believed.
  TERN_FUZZ_CHECK(handshake.state() == TcpHandshake::State::talking ||
                  handshake.state() == TcpHandshake::State::rubbish);
  TERN_FUZZ_CHECK(!handshake.committed());

  // The parsers below the authentication see bytes of peers that hold the key, but are checked like all
  // others.
  std::string_view body(reinterpret_cast<const char*>(data) + 2, bytes - 2);
  wire::Greeting greeting;
  if (wire::parse_greeting(body, greeting)) {
    TERN_FUZZ_CHECK(greeting.agreement.size() <= body.size());
    std::string difference = wire::describe_disagreement(greeting.agreement, self.agreement);
    for (char c : difference) TERN_FUZZ_CHECK(c >= ' ' && c <= '~');
  }
  wire::Verdict verdict;
  uint64_t received;
  if (wire::parse_verdict(body, verdict, received)) TERN_FUZZ_CHECK(uint8_t(verdict) >= 1 && uint8_t(verdict) <= 6);
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  TcpIdentity other = identity(0), self = identity(1);
  TcpHandshake caller(other, {0, 1}), called(self);
  std::string hello = caller.output();
  called.feed(reinterpret_cast<const std::byte*>(hello.data()), 8);
  called.feed(reinterpret_cast<const std::byte*>(hello.data()) + 8, hello.size() - 8);
  std::string answer = called.output();
  using namespace std::string_literals;
  return {"\0\377"s + hello, "\1\377"s + answer, "\0\0"s + hello.substr(0, 40), "\0\7"s + hello.substr(8),
          "\1\1GET / HTTP/1.1"s};
}
