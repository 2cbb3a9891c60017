// Byte streams over the simulated network: StreamPort as the kernel's sockets provide it, for one rank: with the costs
// of system call and copy, sends and receives that move less than they could, descriptors that run out, and everything
// that StreamHosts does to connections.
//
// Thread rule: the rank's strand, and network events (which come when no strand runs).
#pragma once

#include <vector>

#include "base/rng.h"
#include "fabric/ip/stream_port.h"
#include "sim/poll_cost.h"
#include "sim/sockets.h"

namespace tern::sim {

class SimStreams final : public StreamPort {
 public:
  SimStreams(StreamHosts& hosts, Strand& strand, uint64_t seed);

  Error addresses(std::string_view wanted, std::vector<LocalAddress>& out) override;
  wire::HostIdentity host() override;
  int find_route(const SocketAddress&) override { return 0; }
  void reserve(uint64_t) override {}
  Error check_congestion(const std::string&) override { return {}; }

  int listen(const SocketAddress& address, std::string_view congestion) override;
  int accept(int listener, SocketAddress& from) override;
  int connect(const SocketAddress& address, std::string_view congestion) override;
  uint32_t ready(int stream, uint32_t wanted) override;
  int error(int stream) override;
  SocketAddress local_address(int stream) override;
  void set_send_buffer(int stream, int bytes) override;
  void ask_if_alive(int stream, bool often) override;

  ssize_t send(int stream, const void* data, size_t bytes, bool more) override;
  ssize_t send_pieces(int stream, const iovec* pieces, size_t count, bool more) override;
  void push(int stream) override;
  ssize_t receive(int stream, void* data, size_t bytes) override;
  ssize_t receive_pieces(int stream, const iovec* pieces, int count) override;
  ssize_t discard(int stream, size_t bytes) override;
  int unacknowledged(int stream) override;
  void acknowledge_at_once(int stream) override;
  void shutdown(int stream, bool both) override;
  void close(int stream) override { sockets_.close(stream); }

  bool silence(int stream, Silence& out) override;
  int watch_interfaces() override { return sockets_.add({}); }
  void read_interfaces(int, std::vector<uint32_t>& down) override { sockets_.take_down(down); }

  void watch(int stream, uint32_t before, uint32_t wanted, void* owner) override;
  int events(Event* out) override;
  void set_wake_bytes(int stream, int bytes) override;
  int descriptor() const override { return -1; }
  bool arm() override { return sockets_.arm(); }
  void wait(std::span<const Awaited> streams, uint64_t at_most_ns) override;

 private:
  /// A system call that looks for arrivals: takes its time, and sees everything that has happened until then.
  /// (Other calls only take their time: `Path::arm`, which must miss nothing, makes them.)
  void enter(uint64_t ns);
  void charge_call() { strand_.charge_ns(hosts_.model().call_ns); }
  StreamEnd& end_of(int stream) { return *sockets_.at(stream).end; }
  int open(StreamEnd& end);
  bool exhausted();
  size_t some_of(size_t bytes);
  ssize_t take(int stream, std::byte* data, size_t bytes);

  StreamHosts& hosts_;
  Strand& strand_;
  const uint32_t node_;
  Rng rng_;
  SimSockets sockets_;
  PollCost poll_cost_;  ///< of receives
};

}  // namespace tern::sim
