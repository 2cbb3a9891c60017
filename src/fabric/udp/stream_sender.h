// The sending half of the modern protocol: operations become the bytes of a stream, these become packets, and each
// packet is kept until it is acknowledged.
//
//   queue_ --build--> fresh_ --seal--> sealed_ --the port takes it--> in_flight_ --acknowledged--> gone
//                                        ^                                |
//                                        +------------ lost_ <------------+  missing in acknowledgements, or silence
//
// A packet's bytes are its unit of repetition. It is sent again under a new number, so an acknowledgement always states
// which sending arrived (as in RFC 9000), and repetitions measure the round trip, too. A packet that was repeated
// without success is split (payload_size.h). An operation is complete when it is copied.
//
// What may leave: new bytes as far as the peer's limit, packets as far as the congestion window and its pace
// (congestion.h). A packet counts as lost if another one sent some packets, or long enough, after it has arrived (RFC
// 9002, 6.1); how many packets is learned from useless repetitions. Lost packets are sent again in the order of the
// stream. If nothing comes back at all, each timeout sends the first unacknowledged packet of the stream, beyond the
// window: the receiver may have no room for anything before the bytes that it waits for. Each goes by the next network,
// since the last one may be down; timeouts double when all have been tried. After some timeouts everything in flight
// counts as lost.
//
// A small message in a burst may stay in fresh_ until the next poll, to leave with later ones in one datagram
// (coalescing.h). No kernel sends it after some time: if the rank does not call the library again, it stays.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/coalescing.h"
#include "fabric/udp/channel.h"
#include "fabric/udp/congestion.h"
#include "fabric/udp/payload_size.h"
#include "fabric/udp/round_trip.h"

namespace tern {

class StreamReceiver;

class StreamSender {
 public:
  StreamSender(UdpLink& link, StreamReceiver& receiver, size_t datagram_bytes);
  ~StreamSender();

  bool try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns);
  /// Nothing is ahead of a message of that length that delays it, and the windows have room for it. (A window smaller
  /// than a message would never have: then it may begin when nothing is in flight.)
  bool may_send(size_t bytes) const;
  /// Takes a whole message, for which may_send is true; it leaves as fast as the network can take it.
  void send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns);
  void enqueue(SendOperation& operation);
  bool withdraw(SendOperation& operation);
  void surrender(SendList& out);
  void on_acknowledgement(const wire::Datagram& datagram, uint64_t now_ns);
  /// The rank polls the network: messages held back leave now. Before `advance`.
  void end_burst(uint64_t now_ns) {
    ++polls_;
    if (coalescing_.open()) coalescing_.end(now_ns);
  }
  /// Repeats what is overdue, and sends what may leave.
  void advance(uint64_t now_ns);
  /// A packet without bytes, to be acknowledged.
  void ask(uint64_t now_ns);

  uint64_t deadline_ns() const;
  bool unsent() const { return !queue_.empty() || !fresh_.empty() || !sealed_.empty() || !lost_.empty(); }
  bool unacknowledged() const { return !in_flight_.empty(); }
  uint32_t silence() const { return silence_; }

  /// Both sides begin with this limit, before the other has stated its own.
  static constexpr size_t kFirstLimit = 64 * 1024;

 private:
  struct Packet : ListHook<Packet> {
    uint64_t number = 0;      ///< of its last sending
    uint64_t old_number = 0;  ///< of the sending before, which counts as lost; 0: none
    uint64_t offset = 0;
    uint64_t sent_ns = 0;
    uint32_t payload_bytes = 0;
    uint32_t capacity = 0;  ///< of payload, as allocated
    uint32_t sendings = 0;  ///< without success so far, or in flight
    std::byte* datagram() { return reinterpret_cast<std::byte*>(this + 1); }
    std::byte* payload() { return datagram() + sizeof(wire::DatagramHead) + sizeof(wire::StreamHead); }
    size_t bytes() const { return wire::kStreamOverhead + payload_bytes; }
    size_t room() const { return capacity - payload_bytes; }
  };
  struct Numbers;  ///< of an acknowledgement

  Packet* make(size_t payload_bytes);
  void drop(Packet& packet);
  void append(const wire::Header& header, const std::byte* payload, size_t bytes, bool join);
  Packet* build();
  Packet* next(uint64_t now_ns, bool beyond_window);
  void split(Packet& packet, IntrusiveList<Packet>& rest, uint64_t now_ns);
  void seal(Packet& packet, uint64_t now_ns);
  bool push(uint64_t now_ns, bool beyond_window);
  void land(Packet& packet);
  void give_up(Packet& packet);
  void lose(Packet& packet);
  void find_lost(uint64_t now_ns);
  void restart_timer(uint64_t now_ns);
  uint64_t timeout_ns() const { return trip_.timeout_ns(silence_ / networks_); }
  uint64_t reorder_ns() const;
  bool room() const { return in_flight_bytes_ < congestion_.window(); }
  /// Nothing delays a new message: what is in fresh_ is only held back.
  bool clear() const {
    return queue_.empty() && sealed_.empty() && lost_.empty() && (fresh_.empty() || held_bytes_ != 0) && !full_;
  }

  UdpLink& link_;
  StreamReceiver& receiver_;
  PayloadSize size_;
  Congestion congestion_;
  RoundTrip trip_;
  Coalescing coalescing_;
  uint64_t polls_ = 0;
  SendList queue_;
  IntrusiveList<Packet> fresh_, sealed_, in_flight_, lost_;  ///< in_flight_: by number; lost_: by offset
  uint64_t end_ = 0;                                         ///< of the stream so far
  uint64_t limit_ = kFirstLimit;                             ///< the peer's
  size_t in_flight_bytes_ = 0;                               ///< of sealed_ too
  size_t held_bytes_ = 0;                                    ///< of fresh_, when all of it is held back; else 0
  size_t repeats_ = 0;  ///< packets of sealed_ and in_flight_ that have been sent before
  uint64_t largest_acked_ = 0;
  uint32_t reorder_ = 3;   ///< packets by which one may come late without being lost (RFC 9002, 6.1.1: begins at 3)
  uint32_t silence_ = 0;   ///< timeouts since something was acknowledged
  uint32_t networks_ = 1;  ///< that timeouts have tried in turn
  uint64_t timeout_at_ns_ = ~uint64_t{0};
  uint64_t lost_at_ns_ = ~uint64_t{0};  ///< when the oldest overtaken packet counts as lost
  uint64_t paced_until_ns_ = 0;         ///< 0: pacing does not limit now
  bool full_ = false;                   ///< the port took less than it was offered
  uint64_t retry_at_ns_ = 0;            ///< then: when sleepers try it again
};

}  // namespace tern
