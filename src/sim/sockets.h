// SimSockets: what a simulated rank has open on its host, by number as descriptors are, and what wakes the rank.
//
// Thread rule: the rank's strand, and network events (which come when no strand runs).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "fabric/ip/stream_port.h"
#include "sim/stream_hosts.h"

namespace tern::sim {

class SimSockets final : public StreamProcess {
 public:
  /// LocalAddress::index of network 0; the others follow.
  static constexpr uint32_t kLoopbackIndex = 1;

  /// What a number stands for: an end, a listener, or the watch of interfaces (neither).
  struct Socket {
    StreamEnd* end = nullptr;
    StreamListener* listener = nullptr;
    uint32_t wanted = 0;
    void* owner = nullptr;
    size_t wake_bytes = 1;
  };

  SimSockets(StreamHosts& hosts, Strand& strand);
  /// What is still open here has been leaked: the run has failed.
  ~SimSockets();
  /// Returns its number.
  int add(const Socket& socket);
  Socket& at(int number);
  size_t open() const { return sockets_.size(); }
  void close(int number);
  /// kReadable, kWritable, kFailed.
  uint32_t state(const Socket& socket) const;
  /// Calls `found(socket, what)` for those that have what they want, until it returns false.
  template <typename Found>
  void each_ready(Found&& found) const {
    for (const auto& [number, socket] : sockets_) {
      if (socket.wanted == 0) continue;
      const uint32_t what = state(socket) & (socket.wanted | kFailed);
      if (what != 0 && !found(socket, what)) return;
    }
  }
  /// Appends the interfaces that have gone down since the last call.
  void take_down(std::vector<uint32_t>& down);
  /// False: one of them has what it wants already.
  bool arm();
  void disarm() { armed_ = false; }

  void on_change(StreamEnd&) override { wake(); }
  void on_interrupt() override { strand_.interrupt(hosts_.network().model().interrupt_ns); }
  void on_interface_down(uint32_t network) override;
  void on_caller(StreamListener&) override { wake(); }
  void on_death(uint64_t now_ns) override;

 private:
  void close(uint64_t now_ns, const Socket& socket);
  void wake();

  StreamHosts& hosts_;
  Strand& strand_;
  std::map<int, Socket> sockets_;  ///< numbers are not reused, so stale ones are found out
  int next_number_ = 3;
  std::vector<uint32_t> down_;  ///< interfaces, not read yet
  bool armed_ = false;          ///< what comes is not missed, also if the rank is not asleep yet (it arms other paths)
};

}  // namespace tern::sim
