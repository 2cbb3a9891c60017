#include "fabric/tcp/traffic.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern::tcp {
namespace {

// With checksums, so much is received before it is acknowledged in a block of its own (a fraction of the sender's
// history).
constexpr uint64_t kAcknowledgeBytes = 64 * 1024;
// While a sender waits for the end of a long message to be acknowledged, the kernel is asked so often although nothing
// arrives, as long as the speed is not known (drain_estimate.h).
constexpr uint64_t kWaitNap_ns = DrainEstimate::kUnknown_ns;
// While a long message arrives, a sleeping thread is woken for each 256 KiB: a wake-up costs as much as copying these.
// (Without this, 1 MiB to a rank that computes, whose event thread copies it, takes 20 wake-ups.)
constexpr uint64_t kWakeBytes = 256 * 1024;
// Blocked connections tried again in one poll: a useless try costs a system call (0.2 us).
constexpr int kMaxFlushes = 4;

}  // namespace

// --- Connections.

Link& Traffic::attach(Stream& stream, std::unique_ptr<Link> link, bool again) {
  TERN_ASSERT(!stream.link);
  link->stream = &stream;
  stream.link = link.get();
  stream.wake_bytes = 1;
  counters_->tcp_connections = ++links_;
  counters_->tcp_resumed += again;
  Link& entered = watched_.adopt(std::move(link));
  watched_.watch(entered, kReadable);
  hot_.heat(entered);
  return entered;
}

void Traffic::detach(Stream& stream) {
  Link& link = *stream.link;
  TERN_DEBUG_ASSERT(link.stream == &stream && links_ != 0);
  port_.shutdown(link.handle.get(), true);
  stream.inbound.drain(link.handle.get());
  stream.outbound.detach();
  stream.link = nullptr;
  if (stream.linked()) stream.unlink();
  hot_.cool(link);
  counters_->tcp_connections = --links_;
  watched_.retire(link);
}

void Traffic::forget(Stream& stream) {
  TERN_DEBUG_ASSERT(!stream.link && !stream.linked());
  bursts_.forget(stream);
}

// --- Sending.

void Traffic::block(Stream& stream) {
  blocked_.push_back(&stream);
  watch(stream);
}

void Traffic::send(Stream& stream, const SendOperation& operation, bool alone, bool helped) {
  const TcpOutbound::Wait wait = may_wait(stream, operation.header, operation.total_bytes, helped);
  if (wait == TcpOutbound::Wait::here && alone && stream.outbound.hold()) return;
  flush(stream, wait != TcpOutbound::Wait::no);
  if (wait == TcpOutbound::Wait::no) stream.coalescing.has_left(clock_.rough_ns());
}

bool Traffic::flush(Stream& stream, bool more) {
  const uint64_t before = stream.outbound.sent() + stream.outbound.acknowledged();
  may_be_unsure_ = true;
  TcpOutbound::Flush result = stream.outbound.flush(more);
  // A broken socket is not blocked: its end shows when it is read, after everything that the peer sent before.
  bool blocked = result == TcpOutbound::Flush::blocked;
  if (blocked && !stream.linked()) blocked_.push_back(&stream);
  if (!blocked && stream.linked()) stream.unlink();
  TERN_DEBUG_ASSERT(blocked == stream.linked());
  TERN_DEBUG_ASSERT(stream.link && stream.link->stream == &stream);
  if (result == TcpOutbound::Flush::broken) hot_.heat(*stream.link);
  watch(stream);
  if (armed_ != 0) [[unlikely]]
    look_again_in(stream.outbound.waits() ? kWaitNap_ns : LinkMonitor::kInterval_ns);
  return stream.outbound.sent() + stream.outbound.acknowledged() != before;
}

void Traffic::end_bursts() {
  bursts_.end(clock_.rough_ns(), [this](Stream& stream) {
    if (!stream.link) return;
    if (stream.outbound.empty()) stream.outbound.push();
    else flush(stream);
  });
  hints_.holding = false;
}

void Traffic::watch(Stream& stream) {
  // While ranks poll, a blocked connection is simply tried again; only a sleeper must be told by the kernel. A stream
  // that waits for its peer's others is not read, and would wake a sleeper for nothing.
  uint32_t events = stream.inbound.waiting() && !stream.inbound.can_go_on() ? 0u : kReadable;
  if (armed_ != 0 && stream.linked() && !stream.outbound.empty()) events |= kWritable;
  watched_.watch(*stream.link, events);
}

// The kernel wakes a sleeping thread when `bytes` have arrived (1 to kWakeBytes), or when the connection has ended.
void Traffic::ask_for(Stream& stream, uint64_t bytes) {
  const int wanted = int(std::clamp<uint64_t>(bytes, 1, kWakeBytes));
  if (stream.wake_bytes == wanted) return;
  stream.wake_bytes = wanted;
  TERN_DEBUG_ASSERT(stream.link && wanted > 0);
  port_.set_wake_bytes(stream.link->handle.get(), wanted);
}

// --- A poll.

int Traffic::retry_slow() {
  int handled = 0;
  Stream* last = blocked_.back();
  for (int i = 0; i < kMaxFlushes && !blocked_.empty(); ++i) {
    Stream& stream = *blocked_.pop_front();  // flush appends it again if it is still blocked
    const uint64_t acknowledged = stream.outbound.acknowledged();
    stream.outbound.settle();
    handled += flush(stream) || stream.outbound.acknowledged() != acknowledged;
    if (&stream == last) break;
  }
  return handled;
}

void Traffic::acknowledge(Stream& stream, uint64_t before, TcpInbound::State& state) {
  if (!stream.outbound.acknowledge(stream.inbound.acknowledged())) state = TcpInbound::State::wrong;
  stream.outbound.owe_acknowledgement(stream.inbound.received());
  // With the next data this rank sends, if that is soon; else when nothing more comes.
  bool quiet = stream.inbound.received() == before;
  may_be_unsure_ = may_be_unsure_ || stream.outbound.owed() != 0;
  if (stream.outbound.owed() >= (quiet ? 1 : kAcknowledgeBytes)) flush(stream);
}

int Traffic::complete_slow() {
  int done = 0;
  while (done < kMaxCompletions) {
    SendOperation* operation = sending_.finished.pop_front();
    if (!operation) break;
    ++done;
    TERN_DEBUG_ASSERT(!operation->linked());
    operation->done(*operation, {});
  }
  return done;
}

// --- Sleeping.

bool Traffic::arriving() const {
  return hot_.any([](const Link& link) { return link.stream->inbound.certain_to_come() != 0; }) &&
         arrivals_.fast(clock_.now_ns());
}

bool Traffic::arm() {
  if (!sending_.finished.empty() || more_) return false;
  ++armed_;
  const uint64_t now = clock_.now_ns();
  bool unsure = false;
  uint64_t nap_ns = LinkMonitor::kInterval_ns;
  watched_.each<Link>([&](Link& link) {
    Stream& stream = *link.stream;
    if (stream.outbound.owed() != 0) flush(stream);
    stream.outbound.settle();
    unsure = unsure || stream.outbound.unsure();
    if (stream.outbound.waits()) {
      const uint64_t left = stream.outbound.awaited();
      nap_ns = std::min(nap_ns, stream.drain.next_look_ns(now, stream.outbound.acknowledged(), left));
    } else {
      stream.drain.forget();
    }
    if (stream.linked()) watch(stream);
    ask_for(stream, stream.inbound.certain_to_come());
  });
  may_be_unsure_ = unsure;
  wake_ns_ = ~uint64_t{0};
  if (unsure) look_again_in(nap_ns);
  if (sending_.finished.empty() && port_.arm()) return true;
  disarm();
  return false;
}

// Acknowledgements wake no thread. While asleep: unacknowledged data is checked in time, also what is sent from now
// on.
void Traffic::look_again_in(uint64_t nap_ns) { wake_ns_ = std::min(wake_ns_, clock_.now_ns() + nap_ns); }

void Traffic::disarm() {
  TERN_ASSERT(armed_ > 0);
  if (--armed_ != 0) return;
  for (Stream* stream = blocked_.front(); stream; stream = blocked_.next(stream)) watch(*stream);
}

}  // namespace tern::tcp
