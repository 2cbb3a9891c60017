// The sending half of the modern protocol: operations become the bytes of a stream, these become packets, and each
// packet is kept until its arrival is known.
//
//   queue_ --build--> fresh_ --seal--> sealed_ --the port takes it--> in_flight_ --acknowledged--> gone
//                                        ^                                |
//                                        +------------ lost_ <------------+  missing in acknowledgements, or silence
//
// A packet's bytes are its unit of repetition; it is sent again under a new number, so an acknowledgement always says
// which sending arrived (RFC 9000's idea), and the round trip is measured on repetitions too. What has been repeated in
// vain is split (payload_size.h). An operation is done when it is copied.
//
// What may leave: new bytes as far as the peer's limit, packets as far as the congestion window and its pace
// (congestion.h). Lost is what was sent some packets, or long enough, before another that has arrived (RFC 9002, 6.1);
// how many packets is learned from what was repeated in vain. What was lost is sent again in the order of the stream,
// and when nothing comes back at all the first packet of the stream that is not acknowledged at each timeout, beyond
// the window: the receiver may have no room for anything before the bytes that it waits for have come. After some
// timeouts all that was on the way counts as lost.
//
// A small message in a burst may stay in fresh_ for the next ones, to leave with them in one datagram (coalescing.h),
// until the next poll. Here no kernel sends it when its time is over: if the rank does not come back to the library, it
// waits as long.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/ip/coalescing.h"
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
  void enqueue(SendOperation& operation);
  bool withdraw(SendOperation& operation);
  void surrender(SendList& out);
  void on_acknowledgement(const wire::Datagram& datagram, uint64_t now_ns);
  /// The rank looks at the network: what has waited for company has waited enough. Before `advance`.
  void end_burst(uint64_t now_ns) {
    ++polls_;
    if (coalescing_.open()) coalescing_.end(now_ns);
  }
  /// Looks after what is overdue, and sends what may leave.
  void advance(uint64_t now_ns);
  /// A packet without bytes, to be acknowledged.
  void ask(uint64_t now_ns);

  uint64_t deadline_ns() const;
  bool unsent() const { return !queue_.empty() || !fresh_.empty() || !sealed_.empty() || !lost_.empty(); }
  bool unacknowledged() const { return !in_flight_.empty(); }
  uint32_t silence() const { return silence_; }

  /// What both sides begin with, before the first word of the other's limit.
  static constexpr size_t kFirstLimit = 64 * 1024;

 private:
  struct Packet : ListHook<Packet> {
    uint64_t number = 0;      ///< of its last sending
    uint64_t old_number = 0;  ///< of the sending before, given up for lost; 0: none
    uint64_t offset = 0;
    uint64_t sent_ns = 0;
    uint32_t payload_bytes = 0;
    uint32_t capacity = 0;  ///< of payload, as allocated
    uint32_t sendings = 0;  ///< in vain so far, or in flight
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
  uint64_t patience_ns() const;
  bool room() const { return in_flight_bytes_ < congestion_.window(); }
  /// Nothing is in the way of a new message: what is in fresh_ only waits for company.
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
  size_t held_bytes_ = 0;                                    ///< of fresh_, when all of it waits for company; else 0
  size_t repeats_ = 0;  ///< packets of sealed_ and in_flight_ that have been sent before
  uint64_t largest_acked_ = 0;
  uint32_t reorder_ = 3;  ///< packets by which one may come late without being lost
  uint32_t silence_ = 0;  ///< timeouts since something was acknowledged
  uint64_t timeout_at_ns_ = ~uint64_t{0};
  uint64_t lost_at_ns_ = ~uint64_t{0};  ///< when the oldest overtaken packet counts as lost
  uint64_t paced_until_ns_ = 0;         ///< 0: pacing does not hold us back
  bool full_ = false;                   ///< the port took less than it was offered
  uint64_t retry_at_ns_ = 0;            ///< then: when it is tried again by those who sleep
};

}  // namespace tern
