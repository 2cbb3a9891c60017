#include "process/jobs/port_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "fabric/ip/socket.h"
#include "wire/header.h"

namespace tern {
namespace {

constexpr uint32_t kAccepts = 0, kConnects = 1;  // the two "ranks" of a port's own job

}  // namespace

TcpIdentity PortLink::identity(const TcpKey& secret, RankName name) {
  return {.name = name, .key = secret, .version = wire::kVersion, .agreement = {}, .encrypts = true, .jobs = nullptr};
}

PortLink::PortLink(Descriptor socket, const TcpKey& secret, uint64_t port)
    : identity_(identity(secret, {port, kAccepts})),
      peer_(kNoRank),
      handshake_(std::make_unique<TcpHandshake>(identity_)),
      socket_(std::move(socket)) {}

PortLink::PortLink(std::vector<TcpCandidate> addresses, const TcpKey& secret, uint64_t port)
    : identity_(identity(secret, {port, kConnects})), peer_{port, kAccepts}, addresses_(std::move(addresses)) {
  trouble_ = "it has no address that can be reached from here";
  try_next();
}

void PortLink::end(ErrorClass error_class, std::string text) {
  ended_ = true;
  if (!error_) error_ = Error(error_class, std::move(text));
  socket_.reset();
}

void PortLink::try_next() {
  input_.clear();
  output_.clear();
  while (next_address_ < addresses_.size()) {
    const TcpCandidate& candidate = addresses_[next_address_++];
    const SocketAddress address(candidate.address, candidate.scope);
    const int result = begin_connect(address, socket_);
    if (result != 0 && result != EINPROGRESS) {
      trouble_ = address.text() + ": " + errno_text(result);
      continue;
    }
    ask_if_alive(socket_.get(), true);
    connecting_ = true;
    handshake_ = std::make_unique<TcpHandshake>(identity_, peer_);
    return;
  }
  end(ErrorClass::port, "nobody serves the port: " + trouble_);
}

bool PortLink::write() {
  bool something = false;
  while (!output_.empty()) {
    const ssize_t n = ::send(socket_.get(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      if (proven_) end(ErrorClass::port, "the other side of the port is gone: " + errno_text(errno));
      break;  // in the handshake: read() notices, and tries the next address
    }
    something = true;
    output_.erase(0, size_t(n));
  }
  return something;
}

// Until both sides are proven, at most one message of the handshake is read.
bool PortLink::shake() {
  using State = TcpHandshake::State;
  if (handshake_->state() == State::asks) handshake_->decide(wire::Verdict::accept);
  output_ += std::exchange(handshake_->output(), {});
  if (handshake_->state() == State::rubbish) {
    trouble_ = "what answers there is not this port";
    return false;
  }
  if (handshake_->state() != State::decided) return true;
  if (handshake_->verdict() != wire::Verdict::accept) {
    trouble_ = handshake_->verdict() == wire::Verdict::version ? "the other job uses another version of Tern"
                                                               : "the other job refuses";
    return false;
  }
  proven_ = true;
  sealer_.begin(handshake_->session_key(handshake_->calls()));
  opener_.begin(handshake_->session_key(!handshake_->calls()));
  return true;
}

bool PortLink::read() {
  bool something = false;
  char buffer[65536];
  while (socket_) {
    const size_t room = proven_ ? sizeof buffer : std::min(sizeof buffer, handshake_->need());
    const ssize_t n = recv(socket_.get(), buffer, room, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    something = true;
    bool sound = n > 0;
    if (!sound) trouble_ = n == 0 ? "it hung up" : errno_text(errno);
    if (sound && proven_) {
      input_.append(buffer, size_t(n));
      sound = take_blocks();
      if (!sound) trouble_ = "what it sent was changed on the way";
    } else if (sound) {
      handshake_->feed(reinterpret_cast<const std::byte*>(buffer), size_t(n));
      sound = shake();
      (void)write();
    }
    if (sound) continue;
    if (proven_ || peer_ == kNoRank) {
      end(ErrorClass::port, "the other side of the port is gone: " + trouble_);
    } else {
      try_next();
    }
    break;
  }
  return something;
}

bool PortLink::take_blocks() {
  size_t at = 0;
  wire::BlockHead head;
  while (input_.size() - at >= sizeof head) {
    std::memcpy(&head, input_.data() + at, sizeof head);
    if (head.length > wire::kMaxBlockBytes) return false;
    const size_t whole = sizeof head + head.length + TcpCipher::kTagBytes;
    if (input_.size() - at < whole) break;
    auto* data = reinterpret_cast<std::byte*>(input_.data() + at + sizeof head);
    if (!opener_.open(head, data) || message_.size() + head.length > kMaxMessageBytes) return false;
    message_.append(reinterpret_cast<const char*>(data), head.length);
    if (head.length < wire::kMaxBlockBytes) messages_.push_back(std::exchange(message_, {}));
    at += whole;
  }
  input_.erase(0, at);
  return true;
}

bool PortLink::advance() {
  if (ended_) return false;
  if (connecting_) {
    pollfd ready{socket_.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return false;
    connecting_ = false;
    int error = 0;
    socklen_t bytes = sizeof error;
    (void)getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
      trouble_ = errno_text(error);
      try_next();
      return true;
    }
    output_ += std::exchange(handshake_->output(), {});
  }
  const bool wrote = write();
  return read() || wrote;
}

void PortLink::send(std::string_view message) {
  TERN_ASSERT(proven_ && message.size() <= kMaxMessageBytes);
  bool last = false;
  while (!last) {
    const std::string_view piece = message.substr(0, wire::kMaxBlockBytes);
    message.remove_prefix(piece.size());
    last = piece.size() < wire::kMaxBlockBytes;
    const wire::BlockHead head{.crc = 0, .length = uint16_t(piece.size()), .check = 0, .acknowledged = 0};
    output_.append(reinterpret_cast<const char*>(&head), sizeof head);
    output_.append(piece);
    output_.append(TcpCipher::kTagBytes, '\0');
    sealer_.seal(head,
                 reinterpret_cast<std::byte*>(output_.data() + output_.size() - TcpCipher::kTagBytes - piece.size()));
  }
  if (!ended_) (void)write();
}

std::string PortLink::take_message() {
  std::string first = std::move(messages_.front());
  messages_.erase(messages_.begin());
  return first;
}

}  // namespace tern
