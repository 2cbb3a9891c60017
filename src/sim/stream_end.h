// StreamEnd: one end of a simulated connection: TCP as in Linux, as far as a program can observe it: the three-way
// handshake, windows, delayed acknowledgements, repetition with doubled timeouts, probes of a closed window and of a
// silent peer, the ends of the two directions, resets. Omitted: congestion control, urgent data, segments kept out of
// order (everything after a lost segment is sent again).
//
//    0 ..... una_ ....... next_ ......... end_ | room for more          what we send
//      (gone)    on the way      not sent
//    0 ..... read ....... received_                                     what we receive (inbox_)
//
// Bytes are numbered from 0; the end of a direction counts as one byte behind the last.
//
// Source: RFC 9293; tcp(7). Thread rule: the strand of its owner, and events (outside all fibers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "sim/stream_model.h"

namespace tern::sim {

class StreamHosts;
class StreamEnd;

/// Told when something has changed that a program could observe.
class StreamOwner {
 public:
  virtual void on_change(StreamEnd& end) = 0;
  /// A segment has come: the kernel handles it, on the owner's core.
  virtual void on_interrupt() {}

 protected:
  ~StreamOwner() = default;
};

class StreamEnd {
 public:
  enum class State : uint8_t { calling, called, open, dead };

  /// `called`: the other side has called us; else `call` is next.
  StreamEnd(StreamHosts& hosts, uint64_t id, StreamAddress own, StreamAddress peer, bool called);

  const uint64_t id;
  const StreamAddress own, peer;
  StreamOwner* owner = nullptr;  ///< null: it is closed
  bool waits_in_queue = false;   ///< at the listener that was called

  State state() const { return state_; }
  /// The pending error, cleared by this call.
  int take_error();
  bool failed() const { return error_ != 0; }

  // --- By its owner, at the owner's time.
  void call(uint64_t now_ns);
  /// Bytes taken, or a negated errno.
  ssize_t send(uint64_t now_ns, const std::byte* data, size_t bytes);
  /// The end of what was sent last may wait for more, or not any longer.
  void cork(uint64_t now_ns, bool more);
  /// Bytes given (`out` null: dropped); 0: the end; or a negated errno.
  ssize_t receive(uint64_t now_ns, std::byte* out, size_t bytes);
  void shutdown(uint64_t now_ns, bool both);
  /// The owner has closed it: unread data resets it, else it ends in order by itself.
  void close(uint64_t now_ns);
  void acknowledge_now(uint64_t now_ns);
  void ask_if_alive(uint64_t now_ns, uint64_t idle_ns, uint64_t interval_ns, uint32_t probes);
  void set_send_bytes(size_t bytes) { send_bytes_ = bytes; }
  int unacknowledged() const { return int(last() - una_); }
  bool readable(size_t at_least) const;
  bool writable() const { return state_ == State::dead || (state_ == State::open && out_.size() < send_bytes_); }
  /// Both directions are over.
  bool hung_up() const { return state_ == State::dead || (ended_ && fin_) || receive_closed_; }
  uint32_t repetitions() const { return repetitions_; }
  uint64_t acknowledged_at_ns() const { return acknowledged_at_ns_; }

  /// Its state in a line, for people.
  std::string describe() const;

  // --- By the network and the clock.
  void on_segment(uint64_t now_ns, StreamSegment& segment);
  void on_timer(uint64_t now_ns);
  /// Its connection has died without a segment to the other side.
  void die(uint64_t now_ns, int error);

 private:
  uint64_t last() const { return end_ + (fin_ ? 1 : 0); }
  std::unique_ptr<StreamSegment> segment() const;
  void emit(uint64_t now_ns, std::unique_ptr<StreamSegment> segment);
  void answer_call(uint64_t now_ns);
  void acknowledge(uint64_t now_ns);
  void reset(uint64_t now_ns, int error);
  bool on_handshake(uint64_t now_ns, const StreamSegment& segment);
  void on_acknowledgement(uint64_t now_ns, const StreamSegment& segment);
  void on_data(uint64_t now_ns, const StreamSegment& segment);
  void send_from(uint64_t now_ns, size_t most_segments);
  void repeat(uint64_t now_ns);
  void probe_if_silent(uint64_t now_ns);
  void forget_if_over(uint64_t now_ns);
  void set_timer();
  void changed();
  uint64_t limit() const;

  StreamHosts& hosts_;
  State state_;
  int error_ = 0;
  size_t send_bytes_;
  // Sending.
  std::deque<std::byte> out_;  ///< [una_, end_)
  uint64_t una_ = 0, next_ = 0, end_ = 0;
  uint64_t their_limit_ = 0;
  bool fin_ = false;  ///< no more will be sent
  uint32_t repetitions_ = 0, window_probes_ = 0, duplicates_ = 0;
  uint64_t acknowledged_at_ns_ = 0;
  // Receiving.
  std::deque<std::byte> inbox_;
  uint64_t received_ = 0;
  uint64_t told_limit_ = 0;      ///< the limit that the peer was told last
  uint32_t unanswered_ = 0;      ///< segments that have not been acknowledged
  bool ended_ = false;           ///< the peer sends no more
  bool receive_closed_ = false;  ///< this end wants no more
  bool closed_ = false;          ///< the owner has closed it
  /// When things are due; kNever_ns: not at all.
  struct Due {
    uint64_t repeat_ns = kNever_ns, window_probe_ns = kNever_ns, answer_ns = kNever_ns, uncork_ns = kNever_ns;
    uint64_t forget_ns = kNever_ns, alive_ns = kNever_ns;
    uint64_t set_for_ns = kNever_ns;                     ///< the timer
    uint64_t timeout_ns = StreamModel::kCallTimeout_ns;  ///< from a sending to its repetition; doubles
  } due_;
  uint64_t emitted_ns_ = 0;  ///< the last segment: its owner may be ahead of the events
  uint64_t heard_ns_ = 0, idle_ns_ = 0, interval_ns_ = 0;
  uint32_t probes_ = 0, max_probes_ = 0;
};

}  // namespace tern::sim
