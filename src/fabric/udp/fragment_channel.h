// LA-MPI's UDP protocol (Majumder 2004, chapter 3.1), complete: messages in fragments, the first of 2 KB over the short
// socket, further ones of 8 KB over the long socket. Every fragment is copied, has a CRC, and is acknowledged by
// itself; a send is complete when it is copied. It is here for the experiment: it shares the checks of datagrams, first
// contact and loss of peers with the modern protocol, but nothing of its data's way.
//
//   sender                                              receiver
//     fragment 0 (2 KB, short socket) ───────────────>  where does the message go? (its request to send)
//     <──────────────────────────────────────── ack 0   (clear to send)
//     fragments 1, 2, ... (8 KB, long socket) ───────>  arrive in any order
//     <──────────────────────────── ack 1, ack 2, ...
//     <─────────────────────────────────────── nack 3   overtaken by another, or its CRC is wrong: sent again at once
//     (no answer within the timeout: sent again)
//
// At most `paper_window` fragments of a message are in flight. Messages are numbered and delivered in that order; a
// receiver keeps the first fragments of the next kMessages that come early.
//
// Differences from the paper: datagrams are sealed. The clear does not wait for the posted receive, only for the layer
// above to say where the data goes; for an unexpected message that is memory covered by its sender's credit (beyond the
// credit that layer uses rendezvous, p2p/protocols/rendezvous_send.h). Data is checked before it is copied to the
// user's memory. Answers carry the attempt that they answer, so that repetitions measure round trips, too. The timeout
// is RFC 6298's.
//
// Thread rule: as UdpChannel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "fabric/udp/channel.h"
#include "fabric/udp/round_trip.h"

namespace tern {

class FragmentChannel final : public UdpChannel {
 public:
  explicit FragmentChannel(UdpLink& link) : link_(link) {}
  ~FragmentChannel() override;

  bool try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) override;
  void enqueue(SendOperation& operation, uint64_t now_ns) override;
  bool withdraw(SendOperation& operation) override;
  void surrender(SendList& out) override;
  void abandon(const Error& error) override;
  bool on_datagram(const wire::Datagram& datagram, uint64_t now_ns, int& handled) override;
  void advance(uint64_t now_ns, bool all) override;
  uint64_t deadline_ns() const override;
  void ask(uint64_t now_ns) override;
  bool unsent() const override { return !queue_.empty() || !copying_.empty() || !ready_.empty() || !answers_.empty(); }
  bool unacknowledged() const override { return !on_the_way_.empty() || asked_at_ns_ != 0; }
  uint32_t silence() const override { return silence_; }

  /// The CRC-32C of a fragment: its head with crc and attempt 0, and its payload.
  static uint32_t crc_of(wire::FragmentHead head, const std::byte* payload, size_t bytes);

  /// Messages begun and not acknowledged completely, or come early: 128 KiB of first fragments.
  static constexpr size_t kMessages = 64;

 private:
  /// An outgoing fragment, from its copying to its acknowledgement.
  struct Fragment : ListHook<Fragment> {  // hook: in ready_, or in on_the_way_
    wire::FragmentHead head{};
    uint64_t number = 0;  ///< of its last sending
    uint64_t sent_ns = 0;
    uint64_t due_ns = 0;  ///< when it is sent again
    uint32_t payload_bytes = 0;
    bool flying = false;  ///< in on_the_way_
    std::byte* datagram() { return reinterpret_cast<std::byte*>(this + 1); }
    std::byte* payload() { return datagram() + sizeof(wire::DatagramHead) + sizeof(wire::FragmentHead); }
    size_t bytes() const { return wire::kFragmentOverhead + payload_bytes; }
  };
  /// An outgoing message, until all of it is acknowledged.
  struct Sending : ListHook<Sending> {  // hook: in copying_, while fragments are to be copied
    uint64_t number = 0;
    wire::Header header{};
    uint64_t bytes = 0;
    SendOperation* operation = nullptr;  ///< null: copied completely
    uint32_t copied = 0, total = 0;      ///< fragments
    uint32_t acknowledged = 0;
    bool cleared = false;              ///< fragment 0 is acknowledged
    std::vector<Fragment*> fragments;  ///< copied and not acknowledged
  };
  /// The message that is being received.
  struct Reception {
    bool active = false;
    wire::Header header{};
    uint64_t bytes = 0;
    Landing landing;
    size_t begin = 0;         ///< position of the landing's target at the first byte
    std::vector<bool> there;  ///< by fragment
    uint32_t missing = 0;
    uint32_t highest = 0;  ///< index of the newest that has come
  };
  struct Early {
    wire::FragmentHead head;
    std::vector<std::byte> payload;
  };
  struct Answer {
    wire::DatagramType type;
    wire::FragmentAnswer body;
  };

  Sending& begin(const wire::Header& header, uint64_t bytes, SendOperation* operation);
  void copy(Sending& sending, const std::byte* flat);
  void fill(uint64_t now_ns);
  bool send(Fragment& fragment, uint64_t now_ns);
  void flush(uint64_t now_ns);
  void repeat(Fragment& fragment);
  Sending* sending_of(uint64_t message);
  void on_answer(const wire::Datagram& datagram, uint64_t now_ns);
  bool on_fragment(const wire::Datagram& datagram, int& handled);
  void open(const wire::FragmentHead& head, const std::byte* payload, size_t bytes, int& handled);
  void land(uint32_t index, const std::byte* payload, size_t bytes, int& handled);
  void answer(wire::DatagramType type, uint64_t message, uint32_t index, uint32_t attempt);
  void look_for_silent(uint64_t now_ns);
  void forget(Fragment& fragment);

  /// How long to wait after `timeouts` timeouts in a row: doubled when all networks have been tried.
  uint64_t timeout_ns(uint32_t timeouts) const { return trip_.timeout_ns(timeouts / networks_); }

  UdpLink& link_;
  RoundTrip trip_;
  // Sending.
  SendList queue_;                  ///< not begun
  IntrusiveList<Sending> copying_;  ///< begun, oldest first
  std::deque<Sending> sendings_;    ///< from the oldest that is not acknowledged completely
  IntrusiveList<Fragment> ready_;   ///< to be sent (again)
  IntrusiveList<Fragment> on_the_way_;
  uint64_t next_due_ns_ = ~uint64_t{0};  ///< of on_the_way_, or before
  uint64_t asked_at_ns_ = 0;             ///< when a question was sent; 0: none
  uint64_t next_message_ = 0;
  uint32_t networks_ = 1;  ///< that timeouts have tried in turn
  uint32_t silence_ = 0;
  bool full_ = false;
  uint64_t retry_at_ns_ = 0;
  // Receiving.
  uint64_t expected_ = 0;  ///< number of the message that is delivered next, or is being received
  Reception reception_;
  std::map<uint64_t, Early> early_;  ///< first fragments of messages after `expected_`
  std::deque<Answer> answers_;
};

}  // namespace tern
