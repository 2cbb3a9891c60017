// The receiving half of the modern protocol: packets in any order become the stream again, and the sender is told what
// has arrived. Bytes that come early are kept, no more of them than the limit that the sender was told.
//
// Acknowledgements travel with this rank's own packets; or alone when a gap shows, when a good part of the window is
// unacknowledged, or after a short while. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "fabric/udp/channel.h"
#include "fabric/udp/message_reader.h"
#include "fabric/udp/round_trip.h"

namespace tern {

class StreamReceiver {
 public:
  StreamReceiver(UdpLink& link, size_t window_bytes);

  /// Takes the payload of a stream packet. False: not sound.
  bool take(const wire::Datagram& datagram, uint64_t now_ns, int& handled);
  /// An acknowledgement alone, which is not acknowledged itself.
  void note(uint64_t number) { link_.received.add(number); }
  void abandon(const Error& error);

  /// Fills the head of an outgoing packet with the present acknowledgement; that counts as stated then.
  wire::StreamHead head(uint64_t now_ns);
  /// Sends an acknowledgement alone, if one is due; `all`: or if it is of more than a little (the rank will sleep).
  void acknowledge(uint64_t now_ns, bool all);
  bool owes() const { return owed_ != 0; }
  uint64_t deadline_ns() const {
    return owed_ == 0 ? ~uint64_t{0} : owed_since_ns_ + (put_off_ ? kAsleepDelay_ns : kDelay_ns);
  }

  /// How long it waits for a packet to travel with: 1/13 of kMinTimeout_ns; and half of it by a rank that sleeps, whose
  /// timer need not be set again in every exchange then.
  static constexpr uint64_t kDelay_ns = 300'000, kAsleepDelay_ns = RoundTrip::kMinTimeout_ns / 2;

 private:
  bool deliver(const std::byte* data, size_t bytes, int& handled);
  bool keep(uint64_t offset, const std::byte* data, size_t bytes);

  UdpLink& link_;
  const size_t window_;
  MessageReader reader_;
  uint64_t next_ = 0;  ///< of the stream: all before has been delivered
  uint64_t whole_ =
      0;  ///< all before has arrived; what of it is not delivered yet, because the sink is busy, lies in early_
  std::map<uint64_t, std::vector<std::byte>>
      early_;  ///< by offset, beyond next_; do not overlap; what comes behind a piece is added to it
  size_t early_bytes_ = 0;
  uint32_t owed_ = 0;  ///< packets not yet acknowledged
  size_t owed_bytes_ = 0;
  uint64_t owed_from_ = 0;  ///< the lowest number among them
  uint64_t owed_since_ns_ = 0;
  uint64_t newest_ns_ = 0;  ///< when the largest number arrived
  bool urgent_ = false;
  bool put_off_ = false;  ///< nothing has arrived since the rank last went to sleep
};

}  // namespace tern
