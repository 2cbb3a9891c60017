#include "sim/streams.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/assert.h"

namespace tern::sim {
namespace {

// A kernel has room for so many bytes in any empty buffer (SOCK_MIN_SNDBUF), and corked data does not count.
constexpr size_t kTakenWhole = 2048;

wire::CardAddress card_address(uint32_t node, uint32_t network) {
  wire::CardAddress address;
  if (network == 0) {
    address.bytes = {127, 0, 0, 1};
    address.prefix_length = 8;
    address.flags = wire::CardAddress::kLoopback;
  } else {
    address.bytes = {10, uint8_t(network), uint8_t(node >> 8), uint8_t(node)};
    address.prefix_length = 16;
  }
  return address;
}

SocketAddress socket_address(const StreamAddress& address) {
  wire::CardAddress card = card_address(address.node, address.network);
  card.port = address.port;
  return SocketAddress(card);
}

/// False: no host of the machine has it. `from`: the node that asks.
bool find(const StreamHosts& hosts, uint32_t from, const SocketAddress& address, StreamAddress& out) {
  if (address.storage.ss_family != AF_INET) return false;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr);
  out.port = address.port();
  out.network = bytes[0] == 127 ? 0 : bytes[1];
  out.node = bytes[0] == 127 ? from : uint32_t(bytes[2]) << 8 | bytes[3];
  return out.network <= hosts.model().networks && out.node < hosts.network().nodes();
}

}  // namespace

SimStreams::SimStreams(StreamHosts& hosts, Strand& strand, uint64_t seed)
    : hosts_(hosts),
      strand_(strand),
      node_(hosts.network().node_of(strand.rank())),
      rng_(seed),
      sockets_(hosts, strand) {}

void SimStreams::enter(uint64_t ns) {
  sockets_.disarm();
  strand_.charge_ns(ns);
  strand_.catch_up();
}

int SimStreams::open(StreamEnd& end) {
  const int number = sockets_.add({.end = &end});
  ask_if_alive(number, false);
  return number;
}

bool SimStreams::exhausted() {
  return sockets_.open() >= hosts_.model().descriptors || rng_.chance(hosts_.faults().exhausted_in_1024, 1024);
}

size_t SimStreams::some_of(size_t bytes) {
  if (bytes < 2 || !rng_.chance(hosts_.faults().partial_in_1024, 1024)) return bytes;
  return 1 + size_t(rng_.below(rng_.chance(1, 2) ? bytes : std::min<size_t>(bytes, 64)));
}

// --- The host.

Error SimStreams::addresses(std::string_view, std::vector<LocalAddress>& out) {
  out.clear();
  for (uint32_t network = 0; network <= hosts_.model().networks; ++network) {
    const std::string name = network == 0 ? "lo" : "sim" + std::to_string(network);
    out.push_back({name, SimSockets::kLoopbackIndex + network, card_address(node_, network)});
  }
  return {};
}

wire::HostIdentity SimStreams::host() {
  wire::HostIdentity identity{};
  identity[0] = 1;
  identity[1] = uint8_t(node_ >> 8);
  identity[2] = uint8_t(node_);
  return identity;
}

// --- Making connections.

int SimStreams::listen(const SocketAddress& address, std::string_view) {
  enter(hosts_.model().call_ns);
  StreamAddress where;
  if (!find(hosts_, node_, address, where) || where.node != node_) return -EADDRNOTAVAIL;
  StreamListener* listener = hosts_.listen(sockets_, where);
  return listener ? sockets_.add({.listener = listener}) : -EADDRINUSE;
}

int SimStreams::accept(int number, SocketAddress& from) {
  enter(hosts_.model().call_ns);
  auto& queue = sockets_.at(number).listener->queue;
  if (exhausted()) return -EMFILE;
  if (queue.empty()) return -EAGAIN;
  StreamEnd* end = queue.front();
  queue.pop_front();
  end->waits_in_queue = false;
  from = socket_address(end->peer);
  return open(*end);
}

int SimStreams::connect(const SocketAddress& address, std::string_view) {
  enter(hosts_.model().call_ns);
  StreamAddress target;
  if (!find(hosts_, node_, address, target)) return -EHOSTUNREACH;
  if (exhausted()) return -EMFILE;
  if (!hosts_.works(node_, target.network)) return -ENETUNREACH;
  return open(hosts_.call(strand_.now_ns(), sockets_, node_, target));
}

uint32_t SimStreams::ready(int stream, uint32_t wanted) {
  enter(hosts_.model().call_ns);
  return sockets_.state(sockets_.at(stream)) & (wanted | kFailed);
}

int SimStreams::error(int stream) {
  enter(hosts_.model().call_ns);
  return end_of(stream).take_error();
}

SocketAddress SimStreams::local_address(int stream) {
  const SimSockets::Socket& socket = sockets_.at(stream);
  return socket_address(socket.listener ? socket.listener->address : socket.end->own);
}

void SimStreams::set_send_buffer(int stream, int bytes) { end_of(stream).set_send_bytes(size_t(bytes)); }

void SimStreams::ask_if_alive(int stream, bool often) {
  const KeepAlive& keep = often ? kAskOften : kAskSeldom;
  end_of(stream).ask_if_alive(strand_.now_ns(), uint64_t(keep.idle_s) * kSecond_ns,
                              uint64_t(keep.interval_s) * kSecond_ns, uint32_t(keep.probes));
}

// --- Data.

ssize_t SimStreams::send(int stream, const void* data, size_t bytes, bool more) {
  const iovec piece{const_cast<void*>(data), bytes};
  return send_pieces(stream, &piece, 1, more);
}

ssize_t SimStreams::send_pieces(int stream, const iovec* pieces, size_t count, bool more) {
  charge_call();
  StreamEnd& end = end_of(stream);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  const size_t limit = bytes <= kTakenWhole ? bytes : some_of(bytes);
  size_t taken = 0;
  for (size_t i = 0; i < count && taken < limit; ++i) {
    const size_t wanted = std::min(pieces[i].iov_len, limit - taken);
    if (wanted == 0) continue;
    const ssize_t n = end.send(strand_.now_ns(), static_cast<const std::byte*>(pieces[i].iov_base), wanted);
    if (n < 0 && taken == 0) return n;
    if (n > 0) taken += size_t(n);
    if (n < ssize_t(wanted)) break;
  }
  const NetworkModel& costs = hosts_.network().model();
  strand_.charge_ns(costs.send_ns + costs.socket_copy_ns(taken));
  end.cork(strand_.now_ns(), more);
  return ssize_t(taken);
}

void SimStreams::push(int stream) {
  charge_call();
  end_of(stream).cork(strand_.now_ns(), false);
}

ssize_t SimStreams::take(int stream, std::byte* data, size_t bytes) {
  const NetworkModel& costs = hosts_.network().model();
  enter((costs.poll_ns + hosts_.model().call_ns) * poll_cost_.times());
  if (stream < 0) return -EBADF;
  const ssize_t n = end_of(stream).receive(strand_.now_ns(), data, some_of(bytes));
  poll_cost_.polled(n != -EAGAIN);
  if (n > 0) strand_.charge_ns(costs.receive_ns + (data ? costs.socket_copy_ns(size_t(n)) : 0));
  return n;
}

ssize_t SimStreams::receive(int stream, void* data, size_t bytes) {
  return take(stream, static_cast<std::byte*>(data), bytes);
}

ssize_t SimStreams::discard(int stream, size_t bytes) { return take(stream, nullptr, bytes); }

ssize_t SimStreams::receive_pieces(int stream, const iovec* pieces, int count) {
  size_t taken = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t n = take(stream, static_cast<std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
    if (n <= 0) return taken != 0 ? ssize_t(taken) : n;
    taken += size_t(n);
    if (size_t(n) < pieces[i].iov_len) break;
  }
  return ssize_t(taken);
}

int SimStreams::unacknowledged(int stream) {
  charge_call();
  return end_of(stream).unacknowledged();
}

void SimStreams::acknowledge_at_once(int stream) {
  charge_call();
  end_of(stream).acknowledge_now(strand_.now_ns());
}

void SimStreams::shutdown(int stream, bool both) {
  enter(hosts_.model().call_ns);
  end_of(stream).shutdown(strand_.now_ns(), both);
}

// --- Silence.

bool SimStreams::silence(int stream, Silence& out) {
  charge_call();
  const StreamEnd& end = end_of(stream);
  const uint64_t now = strand_.now_ns();
  out = {end.repetitions(), uint32_t((now - std::min(now, end.acknowledged_at_ns())) / 1'000'000)};
  return true;
}

// --- Readiness.

void SimStreams::watch(int stream, uint32_t before, uint32_t wanted, void* owner) {
  SimSockets::Socket& socket = sockets_.at(stream);
  TERN_ASSERT(socket.wanted == before && before != wanted);
  socket.wanted = wanted;
  socket.owner = owner;
  charge_call();
}

int SimStreams::events(Event* out) {
  enter(hosts_.model().call_ns);
  int count = 0;
  sockets_.each_ready([&](const SimSockets::Socket& socket, uint32_t what) {
    out[count++] = {socket.owner, what};
    return count < kMaxEvents;
  });
  return count;
}

void SimStreams::set_wake_bytes(int stream, int bytes) { sockets_.at(stream).wake_bytes = size_t(bytes); }

void SimStreams::wait(std::span<const Awaited> streams, uint64_t at_most_ns) {
  enter(hosts_.model().call_ns);
  const bool now = std::any_of(streams.begin(), streams.end(), [this](const Awaited& awaited) {
    return (sockets_.state(sockets_.at(awaited.stream)) & (awaited.what | kFailed)) != 0;
  });
  if (!now) strand_.block(strand_.now_ns() + at_most_ns, "closing connections");
}

}  // namespace tern::sim
