// DatagramPort: what moves datagrams between ranks, without promises: they may be lost, doubled, reordered, damaged.
// The UDP path's protocols stand on it as the rdma path stands on Hca; there are two: the kernel's sockets
// (kernel_port.h) and the simulated network (sim/datagrams.h).
//
// Thread rule: under the rank's lock. Units: bytes.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/types.h"
#include "wire/datagram.h"

namespace tern {

class DatagramPort {
 public:
  virtual ~DatagramPort() = default;

  /// Says in a card where this rank's channels are.
  virtual void describe(wire::DatagramCard& card) const = 0;
  /// Learns where the peer's are. Error: no network leads there.
  virtual Error meet(PeerId peer, const wire::DatagramCard& card) = 0;
  /// The largest datagram that goes to that peer in one piece. After meet.
  virtual size_t datagram_bytes(PeerId peer) const = 0;
  /// What arrives while nobody looks is kept up to so much, of all peers together.
  virtual size_t buffer_bytes() const = 0;

  /// Sends datagrams, all of one size but the last, which may be shorter. Returns how many were taken: fewer when the
  /// way is full; what the network refuses altogether counts as taken (and lost). The memory is free again at once.
  virtual size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) = 0;

  struct Arrival {
    std::byte* data;  ///< may be changed
    size_t bytes;
    uint64_t route;  ///< which way it came; for follow
  };
  static constexpr size_t kMaxArrivals = 128;
  /// Fills `out` (kMaxArrivals) with what is there, valid until the next call; returns how many.
  virtual size_t receive(Arrival* out) = 0;

  // --- Several networks.
  /// Another way to that peer from now on; false: there is none.
  virtual bool change_route(PeerId peer) { return false; }
  /// The peer itself has come this way: so will we.
  virtual void follow(PeerId peer, uint64_t route) {}

  // --- Whether a silent peer's process is still there: it may be computing, and then nothing of it answers datagrams.
  enum class Life : uint8_t {
    unknown,  ///< not asked
    asked,    ///< no answer so far
    lives,
    gone,  ///< its host says that there is no such process
  };
  virtual void ask_life(PeerId peer) = 0;
  virtual Life life(PeerId peer) = 0;
  /// It was heard again.
  virtual void stop_asking(PeerId peer) {}

  // --- Sleeping, as Path.
  virtual int descriptor() const { return -1; }
  virtual bool arm() { return true; }
};

}  // namespace tern
