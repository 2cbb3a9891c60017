// What the UDP path's protocols have in common: each conversation with a peer is a state machine that receives the time
// and authentic datagrams, and hands datagrams to a port. It knows neither sockets nor clocks, so it also runs in the
// simulator, over a network that loses, duplicates, reorders and damages datagrams.
//
//   stream_channel.h     the modern protocol: a stream of bytes, selective acknowledgements, pacing, back-off
//   fragment_channel.h   LA-MPI's (Majumder 2004, chapter 3.1)
//
// Units: bytes, nanoseconds. Thread rule: under the rank's lock; only on_datagram calls the sink.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/clock.h"
#include "fabric/path.h"
#include "fabric/udp/datagram_port.h"
#include "fabric/udp/packet_pool.h"
#include "fabric/udp/received_numbers.h"
#include "fabric/udp/seal.h"
#include "wire/datagram.h"

namespace tern {

using SendList = IntrusiveList<SendOperation>;

/// What the conversations of a path share.
struct UdpShared {
  /// Pause before the next try when the port takes nothing: a socket's buffer of 200 KiB leaves at 1 Gbit/s in 1.6 ms.
  static constexpr uint64_t kFullWait_ns = 1'000'000;

  RankName self;
  DatagramOutlet& port;
  Sink& sink;
  Clock& clock;
  PacketPool pool{};
  SendList finished{};           ///< copied completely; `done` is due
  Counters* counters = nullptr;  ///< where the path counts; never null in use
  bool holding = false;          ///< messages are held back until the next poll
  uint64_t message_ns = 0;       ///< simulated ranks: CPU time of a message on either side, without its copies
  size_t window_bytes = 0;       ///< modern: unacknowledged bytes of one peer
  uint32_t paper_window = 0;     ///< paper: fragments of one message in flight
  void charge_messages(int count) {
    if (message_ns != 0) clock.charge_ns(uint64_t(count) * message_ns);
  }
};

/// One peer's end of the wire: numbers and seals.
struct UdpLink {
  UdpShared& shared;
  Lane& lane;         ///< the lane that the sink is told
  const PeerId peer;  ///< its id
  DatagramSeal sealing, checking;
  uint64_t next_number = 1;
  ReceivedNumbers received;

  /// Writes the head, with the next number, and the seal of a datagram whose body is written already.
  uint64_t close(std::byte* datagram, size_t bytes, wire::DatagramType type) {
    const wire::DatagramHead head{wire::kDatagramMagic, type,       wire::kDatagramVersion, shared.self.rank,
                                  shared.self.job,      next_number};
    std::memcpy(datagram, &head, sizeof head);
    sealing.close(datagram, bytes, head.number);
    return next_number++;
  }
  /// Nothing has come back in time: what leaves now goes by the next network. Returns how many networks there are.
  uint32_t try_next_network() {
    const uint32_t networks = shared.port.change_route(peer);
    shared.counters->udp_moved += networks > 1;
    return networks;
  }
  /// Reverses `close`, so that the datagram can be sent under another number: it was not sent, or was lost.
  void reopen(std::byte* datagram, size_t bytes, uint64_t number) {
    if (sealing.encrypts()) TERN_ASSERT(sealing.open(datagram, bytes, number));
  }
  /// Sends one datagram that need not be queued. False: the way is full, and its number is free again.
  bool send_alone(std::byte* datagram, size_t bytes, wire::DatagramType type) {
    close(datagram, bytes, type);
    const iovec piece{datagram, bytes};
    if (shared.port.send(peer, 0, &piece, 1) == 0) {
      --next_number;
      return false;
    }
    ++shared.counters->udp_sent;
    return true;
  }
};

class UdpChannel {
 public:
  virtual ~UdpChannel() = default;

  // As Path's; nothing here calls a done-function: operations go to UdpShared::finished.
  virtual bool try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) = 0;
  virtual void enqueue(SendOperation& operation, uint64_t now_ns) = 0;
  virtual bool withdraw(SendOperation& operation) = 0;
  /// The peer is lost: moves all operations to the end of `out`, and ends what was landing.
  virtual void surrender(SendList& out) = 0;
  virtual void abandon(const Error& error) = 0;

  /// Handles an authentic datagram with a new number; marks the number as received, unless there is no room for the
  /// datagram now. False: no correct peer sends this. Adds the messages delivered to `handled`.
  virtual bool on_datagram(const wire::Datagram& datagram, uint64_t now_ns, int& handled) = 0;
  /// Sends what time and windows allow. `all`: before sleeping; also acknowledgements that a sender may wait for.
  virtual void advance(uint64_t now_ns, bool all) = 0;
  /// When advance must be called; ~0: not yet.
  virtual uint64_t deadline_ns() const = 0;
  /// Sends something that the peer will answer, unless something is in flight already.
  virtual void ask(uint64_t now_ns) = 0;

  /// Something has not left yet.
  virtual bool unsent() const = 0;
  /// Something was sent and is not acknowledged; and the number of timeouts since the peer was last heard.
  virtual bool unacknowledged() const = 0;
  virtual uint32_t silence() const = 0;
};

}  // namespace tern
