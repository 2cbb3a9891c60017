// DatagramPort: moves datagrams between ranks, without guarantees: they may be lost, duplicated, reordered, damaged.
// The UDP path's protocols use it as the RDMA path uses Hca. There are two: the kernel's sockets (kernel_port.h) and
// the simulated network (sim/datagrams.h). A conversation with a peer (channel.h) needs only the way out, which the
// datagrams of an RDMA adapter have, too (fabric/rdma/channels/ud_endpoint.h).
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

/// The way out.
class DatagramOutlet {
 public:
  virtual ~DatagramOutlet() = default;

  /// Datagrams of one call with segmentation offload, and their bytes: UDP_MAX_SEGMENTS of Linux, and the largest IP
  /// packet. Senders build batches of this size.
  static constexpr size_t kBatch = 64, kBatchBytes = 65'000;
  /// Sends datagrams, all of one size except the last, which may be shorter. Returns how many were taken: fewer when
  /// the way is full. Datagrams that the network refuses count as taken (and lost). The memory may be reused at once.
  virtual size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) = 0;
  /// Uses the next network to that peer from now on; returns how many there are. 1: nothing has changed.
  virtual uint32_t change_route(PeerId peer) { return 1; }
};

class DatagramPort : public DatagramOutlet {
 public:
  /// Writes the addresses of this rank's channels into a card.
  virtual void describe(wire::DatagramCard& card) const = 0;
  /// Learns the addresses of the peer's channels. Error: no network leads there.
  virtual Error meet(PeerId peer, const wire::DatagramCard& card) = 0;
  /// The largest datagram that goes to that peer in one piece. After meet.
  virtual size_t datagram_bytes(PeerId peer) const = 0;
  /// Arrivals of all peers together are kept up to so many bytes while this rank does not poll.
  virtual size_t buffer_bytes() const = 0;

  struct Arrival {
    std::byte* data;  ///< may be changed
    size_t bytes;
    uint64_t route;  ///< the way on which it came; for follow
  };
  static constexpr size_t kMaxArrivals = 2 * kBatch;  ///< of one call: two batches of joined datagrams
  /// Fills `out` (kMaxArrivals) with what is there, valid until the next call; returns how many.
  virtual size_t receive(Arrival* out) = 0;

  // --- Several networks.
  /// The peer itself has come this way: use it as well.
  virtual void follow(PeerId peer, uint64_t route) {}

  // --- Whether a silent peer's process lives: it may be computing, and then it answers no datagram.
  enum class Life : uint8_t {
    unknown,  ///< not asked
    asked,    ///< no answer so far
    lives,
    gone,  ///< its host reports that there is no such process
  };
  virtual void ask_life(PeerId peer) = 0;
  virtual Life life(PeerId peer) = 0;
  /// The peer was heard again.
  virtual void stop_asking(PeerId peer) {}

  // --- Sleeping, as Path.
  virtual int descriptor() const { return -1; }
  virtual bool arm() { return true; }
};

}  // namespace tern
