// Byte streams over the simulated network: StreamPort as the kernel's sockets provide it, for one rank: with the costs
// of system call and copy, sends and receives that move less than they could, descriptors that run out, and everything
// that StreamHosts does to connections.
//
// Thread rule: the rank's strand, and network events (which come when no strand runs).
#pragma once

#include <map>
#include <vector>

#include "base/rng.h"
#include "fabric/ip/stream_port.h"
#include "sim/poll_cost.h"
#include "sim/stream_hosts.h"

namespace tern::sim {

class SimStreams final : public StreamPort, private StreamProcess {
 public:
  SimStreams(StreamHosts& hosts, Strand& strand, uint64_t seed);
  /// A stream that is still open here has been leaked: the run has failed.
  ~SimStreams() override;

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
  void close(int stream) override;

  bool silence(int stream, Silence& out) override;
  int watch_interfaces() override;
  void read_interfaces(int watch, std::vector<uint32_t>& down) override;

  void watch(int stream, uint32_t before, uint32_t wanted, void* owner) override;
  int events(Event* out) override;
  void set_wake_bytes(int stream, int bytes) override;
  int descriptor() const override { return -1; }
  bool arm() override;
  void wait(std::span<const Awaited> streams, uint64_t at_most_ns) override;

 private:
  /// What a number stands for: an end, a listener, or the watch of interfaces (neither).
  struct Socket {
    StreamEnd* end = nullptr;
    StreamListener* listener = nullptr;
    uint32_t wanted = 0;
    void* owner = nullptr;
    size_t wake_bytes = 1;
  };
  void on_change(StreamEnd& end) override;
  void on_interrupt() override { strand_.interrupt(hosts_.network().model().interrupt_ns); }
  void on_interface_down(uint32_t network) override;
  void on_caller(StreamListener& listener) override;
  void on_death(uint64_t now_ns) override;

  /// A system call that looks for arrivals: takes its time, and sees everything that has happened until then.
  /// (Other calls only take their time: `Path::arm`, which must miss nothing, makes them.)
  void enter(uint64_t ns);
  void wake();
  void charge_call() { strand_.charge_ns(hosts_.model().call_ns); }
  Socket& at(int number);
  int add(const Socket& socket);
  uint32_t state(const Socket& socket) const;
  bool exhausted();
  size_t some_of(size_t bytes);
  ssize_t take(int stream, std::byte* data, size_t bytes);
  bool from_socket_address(const SocketAddress& address, StreamAddress& out) const;
  static SocketAddress to_socket_address(const StreamAddress& address);

  StreamHosts& hosts_;
  Strand& strand_;
  const uint32_t node_;
  Rng rng_;
  std::map<int, Socket> sockets_;  ///< numbers are not reused, so stale ones are found out
  int next_number_ = 3;
  std::vector<uint32_t> down_;  ///< interfaces, not read yet
  PollCost poll_cost_;          ///< of receives
  bool armed_ = false;          ///< what comes is not missed, also if the rank is not asleep yet (it arms other paths)
};

}  // namespace tern::sim
