// Traffic: the bytes on established connections. It knows which streams have something to send that the socket did not
// take or the peer does not have, which connections a poll reads, what a sleeper must be woken for, and when to look
// again although nothing arrives. Who is connected with whom, and what the end of a connection means, is not known
// here.
//
// Invariants: a stream is in the list of the blocked exactly when its last flush has ended so, or its try_send has left
// bytes in this rank or operations to complete; only streams with a connection are. While a rank sleeps (`arm`), every
// connection is watched for what its streams wait for.
//
// Polling: while ranks spin, a poll reads the connections that were busy last (one system call), and looks at
// all of them (epoll) every few rounds. Waiting uses the epoll descriptor itself.
//
// Units: bytes, nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "base/need.h"
#include "fabric/bursts.h"
#include "fabric/ip/stream_port.h"
#include "fabric/path.h"
#include "fabric/tcp/arrival_rate.h"
#include "fabric/tcp/hot_links.h"
#include "fabric/tcp/link_monitor.h"
#include "fabric/tcp/links.h"
#include "fabric/tcp/watch_set.h"

namespace tern::tcp {

class Traffic {
 public:
  /// None is owned; all outlive this. It sets `hints.holding`.
  Traffic(StreamPort& port, Clock& clock, WatchSet& watched, TcpOutbound::Shared& sending, PollHints& hints,
          Counters& counters)
      : port_(port), clock_(clock), watched_(watched), sending_(sending), hints_(hints), counters_(&counters) {}
  void count_into(Counters& counters) { counters_ = &counters; }

  // --- Connections.

  /// The stream's connection from now on. Returns it; it is read in every poll. `again`: there was another before.
  Link& attach(Stream& stream, std::unique_ptr<Link> link, bool again);
  /// From this connection only what its socket holds is still read, and that is kept. (After the shutdown the
  /// kernel answers further data with a reset instead of acknowledging it, so the peer knows what this rank does not
  /// have.)
  void detach(Stream& stream);
  /// The stream, which has no connection, is about to be dropped.
  void forget(Stream& stream);
  size_t connections() const { return links_; }

  // --- Sending, on streams with a connection.

  /// A whole small message; false: it has to wait in the queue. `helped`: a thread polls for this rank.
  bool try_send(Stream& stream, const wire::Header& header, const void* payload, size_t bytes, bool helped) {
    const TcpOutbound::Wait wait = may_wait(stream, header, bytes, helped);
    if (!stream.outbound.try_send(header, payload, bytes, wait)) return false;
    if (wait == TcpOutbound::Wait::no) stream.coalescing.has_left(clock_.rough_ns());
    may_be_unsure_ = true;
    if (!stream.outbound.held() && stream.outbound.pending() && !stream.linked()) block(stream);
    if (armed_ != 0) [[unlikely]]
      look_again_in(LinkMonitor::kInterval_ns);
    return true;
  }
  /// Sends what it can after `operation` was enqueued. `alone`: nothing else is queued.
  void send(Stream& stream, const SendOperation& operation, bool alone, bool helped);
  /// Returns whether bytes have left, or are known to have arrived. `more`: further messages follow at once.
  bool flush(Stream& stream, bool more = false);

  // --- A poll: begin_poll, read_hot, retry; look_at_all if that is due; complete.

  void begin_poll() {
    more_ = false;
    bursts_.note_poll();
    if (!bursts_.empty()) end_bursts();
  }
  /// Calls `receive(link)`, which returns how much it did, with the connections that were busy last.
  template <typename Receive>
  int read_hot(Receive&& receive) {
    return hot_.read(receive);
  }
  bool has_hot() const { return !hot_.empty(); }
  /// Whether all connections are to be looked at in this poll.
  bool look_at_all() {
    if (!hot_.empty() && ++rounds_ < kEventInterval) return false;
    rounds_ = 0;
    return true;
  }
  /// It is to be read in every poll from now on.
  void heat(Link& link) { hot_.heat(link); }
  /// Sends what was blocked.
  int retry() { return blocked_.empty() ? 0 : retry_slow(); }
  /// Reads what is there for its stream, and delivers it. The connection may be over afterwards.
  TcpInbound::State receive(Link& link, int& handled) {
    Stream& stream = *link.stream;
    TERN_DEBUG_ASSERT(stream.link == &link);
    const uint64_t before = stream.inbound.received();
    TcpInbound::State state = stream.inbound.receive(link.handle.get(), handled);
    if (stream.link != &link) return TcpInbound::State::idle;  // the sink has sent, and found the connection broken
    if (stream.inbound.settled()) stream.outbound.trust();
    if (stream.inbound.certain_to_come() != 0) arrivals_.note(stream.inbound.received() - before, clock_);
    if (stream.wake_bytes > 1 && uint64_t(stream.wake_bytes) > stream.inbound.certain_to_come()) [[unlikely]]
      ask_for(stream, 1);
    if (sending_.sealed) acknowledge(stream, before, state);
    if (state == TcpInbound::State::more) more_ = true;
    if (state == TcpInbound::State::waits) [[unlikely]] {
      // No thread reads it to its end, where a break would show.
      if (stream.outbound.error() != 0) return TcpInbound::State::broken;
      watch(stream);
    }
    return state;
  }
  /// The kernel is told what the stream waits for.
  void watch(Stream& stream);
  /// Calls done-functions.
  int complete() { return sending_.finished.empty() ? 0 : complete_slow(); }

  // --- Sleeping.

  bool arm();
  void disarm();
  bool arriving() const;
  uint64_t next_deadline_ns() const { return wake_ns_; }
  Need unsent_hint() const {
    if (more_ || !bursts_.empty() || !blocked_.empty() || !sending_.finished.empty()) return Need::now;
    return !may_be_unsure_ ? Need::nothing : sending_.sealed ? Need::now : Need::later;
  }

 private:
  // With one busy connection a poll costs one recv (0.2 us when it is empty); all others are checked after a number of
  // these, so that a message from a quiet peer waits 2 us at most.
  static constexpr uint32_t kEventInterval = 8;

  /// Whether a message may leave together with the next ones. It may wait in this rank only if a later call surely
  /// sends it: the sender's own, or the event thread's.
  TcpOutbound::Wait may_wait(Stream& stream, const wire::Header& header, size_t bytes, bool helped) {
    using Wait = TcpOutbound::Wait;
    if (bytes > Coalescing::kMaxBytes || sending_.sealed) return Wait::no;
    if (!bursts_.may_wait(stream, clock_.rough_ns(), header)) return Wait::no;
    if (!(helped || wire::sender_comes_back(header)) || armed_ != 0) return Wait::in_kernel;
    hints_.holding = true;
    return Wait::here;
  }
  int retry_slow();
  /// With checksums: what the peer has, and what this rank has received since `before` bytes.
  void acknowledge(Stream& stream, uint64_t before, TcpInbound::State& state);
  int complete_slow();
  void block(Stream& stream);
  void end_bursts();
  void look_again_in(uint64_t nap_ns);
  void ask_for(Stream& stream, uint64_t bytes);

  StreamPort& port_;
  Clock& clock_;
  WatchSet& watched_;
  TcpOutbound::Shared& sending_;
  PollHints& hints_;
  Counters* counters_;
  Bursts<Stream> bursts_;
  HotLinks hot_;
  ArrivalRate arrivals_;
  IntrusiveList<Stream> blocked_;
  size_t links_ = 0;
  uint32_t rounds_ = 0;         ///< polls since all connections were looked at
  int armed_ = 0;               ///< threads that sleep
  bool more_ = false;           ///< a connection's turn was over before its data
  bool may_be_unsure_ = false;  ///< something was sent since `arm` found everything acknowledged (and nothing owed)
  uint64_t wake_ns_ = ~uint64_t{0};  ///< asleep: when to check what is not acknowledged
};

}  // namespace tern::tcp
