// The way of the data: from try_send and enqueue to the socket, from the socket to the sink.
#include "fabric/tcp/tcp_path.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern {

using tcp::PeerState;
using tcp::StreamState;
using tcp::Watched;

namespace {

// With one busy connection a poll costs one recv (0.2 us when it is empty); all others are checked after a number of
// these, so that a message from a quiet peer waits 2 us at most.
constexpr uint32_t kEventInterval = 8;
// With checksums, so much is received before it is acknowledged in a block of its own (a fraction of the sender's
// history).
constexpr uint64_t kAcknowledgeBytes = 64 * 1024;
// While a sender waits for the end of a long message to be acknowledged, the kernel is asked so often although nothing
// arrives, as long as the speed is not known (drain_estimate.h).
constexpr uint64_t kWaitNap_ns = DrainEstimate::kUnknown_ns;
// A thread that sleeps while a long message arrives is woken for so many bytes at a time: a wake-up costs as much as
// copying these (1 MiB to a rank that computes, whose event thread copies it: 20 wake-ups without).
constexpr uint64_t kWakeBytes = 256 * 1024;
// Blocked connections tried again in one poll: a useless try costs a system call (0.2 us).
constexpr int kMaxFlushes = 4;

}  // namespace

TcpPath::Peer& TcpPath::peer_at(PeerId id) {
  TERN_ASSERT(reaches(id));
  if (peers_.size() <= id) peers_.resize(table_.size());
  std::unique_ptr<Peer>& slot = peers_[id];
  if (!slot) slot = std::make_unique<Peer>(id, sink_, sending_);
  TERN_DEBUG_ASSERT(slot->id == id);
  return *slot;
}

TcpPath::Stream& TcpPath::stream_at(Peer& peer, size_t index) {
  TERN_ASSERT(index < wire::kMaxStreams);
  std::unique_ptr<Stream>& slot = peer.streams[index];
  if (!slot) slot = std::make_unique<Stream>(peer, uint8_t(index), sending_);
  TERN_DEBUG_ASSERT(slot->index == index && &slot->peer == &peer);
  return *slot;
}

bool TcpPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= properties_.eager_bytes || bytes <= kAlwaysWholeBytes);
  Peer& peer = static_cast<Peer&>(lane);
  if (!peer.streams[0]) [[unlikely]]
    return false;
  Stream& stream = peer.first();
  if (stream.link) {
    if (bytes >= stripe_bytes_ && may_stripe(stream.peer)) return false;  // `enqueue` stripes it
    const TcpOutbound::Wait wait = may_wait(stream, header, bytes);
    if (!stream.outbound.try_send(header, payload, bytes, wait)) return false;
    if (wait == TcpOutbound::Wait::no) stream.coalescing.has_left(clock_.rough_ns());
    may_be_unsure_ = true;
    if (!stream.outbound.empty() && !stream.outbound.held() && !stream.linked()) {
      blocked_.push_back(&stream);
      watch_link(stream);
    }
    if (armed_ != 0) [[unlikely]]
      look_after_unsure(tcp::LinkMonitor::kInterval_ns);
    return true;
  }
  if (stream.state == StreamState::fresh) contact(stream);
  return false;
}

// Whether a message may leave together with the next ones. It may wait in this rank only if a later call surely sends
// it: the sender's own, or the event thread's.
TcpOutbound::Wait TcpPath::may_wait(Stream& stream, const wire::Header& header, size_t bytes) {
  using Wait = TcpOutbound::Wait;
  if (bytes > Coalescing::kMaxBytes || sending_.sealed) return Wait::no;
  if (!bursts_.may_wait(stream, clock_.rough_ns(), header)) return Wait::no;
  if (!(helped_ || wire::sender_comes_back(header)) || armed_ != 0) return Wait::in_kernel;
  hints_.holding = true;
  return Wait::here;
}

void TcpPath::end_bursts() {
  bursts_.end(clock_.rough_ns(), [this](Stream& stream) {
    if (!stream.link) return;
    if (stream.outbound.empty()) stream.outbound.push();
    else flush(stream);
  });
  hints_.holding = false;
}

void TcpPath::enqueue(SendOperation& operation) {
  Peer& peer = static_cast<Peer&>(*operation.lane);
  if (peer.has_departed()) [[unlikely]] {
    TERN_DEBUG_ASSERT(!operation.linked());
    peer.stranded.push_back(&operation);
    return doom(peer, peer.error_class, peer.trouble);
  }
  if (peer.state == PeerState::open && operation.payload.remaining() >= stripe_bytes_ && stripe(peer, operation)) {
    return;
  }
  Stream& stream = peer.first();
  const bool nothing_before = stream.outbound.empty() || stream.outbound.held();
  stream.outbound.enqueue(operation);
  if (peer.state == PeerState::lost) {
    doom(peer, peer.error_class, peer.trouble);
  } else if (stream.state == StreamState::fresh) {
    contact(stream);
  } else if (stream.link) {
    const TcpOutbound::Wait wait = may_wait(stream, operation.header, operation.total_bytes);
    if (wait == TcpOutbound::Wait::here && nothing_before && stream.outbound.hold()) return;
    flush(stream, wait != TcpOutbound::Wait::no);
    if (wait == TcpOutbound::Wait::no) stream.coalescing.has_left(clock_.rough_ns());
  }
}

bool TcpPath::withdraw(SendOperation& operation) {
  Peer& peer = static_cast<Peer&>(*operation.lane);
  if (peer.has_departed()) {
    if (!operation.linked() || operation.header_sent) return false;
    SendList::remove(&operation);
    return true;
  }
  Stream& stream = peer.first();
  if (stream.outbound.held()) flush(stream);  // it is only held back, and its receiver may be waiting for it
  return stream.outbound.withdraw(operation);
}

bool TcpPath::flush(Stream& stream, bool more) {
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
  watch_link(stream);
  if (armed_ != 0) [[unlikely]]
    look_after_unsure(stream.outbound.waits() ? kWaitNap_ns : tcp::LinkMonitor::kInterval_ns);
  return stream.outbound.sent() + stream.outbound.acknowledged() != before;
}

bool TcpPath::try_again(Stream& stream) {
  const uint64_t acknowledged = stream.outbound.acknowledged();
  TERN_DEBUG_ASSERT(stream.link);
  stream.outbound.settle();
  return flush(stream) || stream.outbound.acknowledged() != acknowledged;
}

void TcpPath::watch_link(Stream& stream) {
  // While ranks poll, a blocked connection is simply tried again; only a sleeper must be told by the kernel. A stream
  // that waits for its peer's others is not read, and would wake a sleeper for nothing.
  uint32_t events = stream.inbound.waiting() && !stream.inbound.can_go_on() ? 0u : kReadable;
  if (armed_ != 0 && stream.linked() && !stream.outbound.empty()) events |= kWritable;
  watched_.watch(*stream.link, events);
}

// A sleeper is woken when so many bytes are there (or the connection has ended), but not for fewer than it can handle.
void TcpPath::ask_for(Stream& stream, uint64_t bytes) {
  const int wanted = int(std::clamp<uint64_t>(bytes, 1, kWakeBytes));
  if (stream.wake_bytes == wanted) return;
  stream.wake_bytes = wanted;
  TERN_DEBUG_ASSERT(stream.link && wanted > 0);
  port_->set_wake_bytes(stream.link->handle.get(), wanted);
}

int TcpPath::complete() {
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

int TcpPath::poll() {
  watched_.forget_retired();
  more_ = false;
  bursts_.note_poll();
  if (!bursts_.empty()) end_bursts();
  int handled = hot_.read([this](Link& link) { return receive(link); });
  Stream* last = blocked_.back();
  for (int i = 0; i < kMaxFlushes && !blocked_.empty(); ++i) {
    Stream* stream = blocked_.pop_front();  // flush appends it again if it is still blocked
    handled += try_again(*stream);
    if (stream == last) break;
  }

  if (hot_.empty() || ++rounds_since_events_ >= kEventInterval) handled += poll_events();
  if (!doomed_.empty()) handled += lose_doomed();
  if (!sending_.finished.empty()) handled += complete();
  return handled;
}

int TcpPath::poll_events() {
  rounds_since_events_ = 0;
  StreamPort::Event events[StreamPort::kMaxEvents];
  const int n = port_->events(events);
  int handled = 0;
  for (int i = 0; i < n; ++i) {
    auto& watched = *static_cast<Watched*>(events[i].owner);
    switch (watched.kind) {
      case Watched::Kind::dead: break;  // retired while an earlier event was handled
      case Watched::Kind::listener: accept_some(static_cast<tcp::Listener&>(watched)); break;
      case Watched::Kind::setup: on_setup(static_cast<Setup&>(watched), events[i].what); break;
      case Watched::Kind::interfaces: on_interfaces(static_cast<tcp::Interfaces&>(watched)); break;
      case Watched::Kind::link: {
        auto& link = static_cast<Link&>(watched);
        if (events[i].what & (kReadable | kFailed)) {
          hot_.heat(link);
          handled += receive(link);
        }
        break;
      }
    }
  }
  if (links_ != 0 || admission_.unproven() != 0 || !calls_.empty() || admission_.paused()) {
    uint64_t now = clock_.now_ns();
    run_timers(now);
    if (link_watch_.due(now)) check_links();
  }
  return handled;
}

int TcpPath::receive(Link& link) {
  Stream& stream = *link.stream;
  TERN_DEBUG_ASSERT(stream.link == &link);
  Peer& peer = stream.peer;
  int handled = 0;
  const uint64_t before = stream.inbound.received();
  TcpInbound::State state = stream.inbound.receive(link.handle.get(), handled);
  if (stream.link != &link) return handled;  // the sink has sent, and found the connection broken
  if (stream.inbound.settled()) stream.outbound.trust();
  if (stream.inbound.certain_to_come() != 0) arrivals_.note(stream.inbound.received() - before, clock_);
  if (stream.wake_bytes > 1 && uint64_t(stream.wake_bytes) > stream.inbound.certain_to_come()) [[unlikely]]
    ask_for(stream, 1);
  if (sending_.sealed) {
    if (!stream.outbound.acknowledge(stream.inbound.acknowledged())) state = TcpInbound::State::wrong;
    stream.outbound.owe_acknowledgement(stream.inbound.received());
    // With the next data this rank sends, if that is soon; else when nothing more comes.
    bool quiet = stream.inbound.received() == before;
    may_be_unsure_ = may_be_unsure_ || stream.outbound.owed() != 0;
    if (stream.outbound.owed() >= (quiet ? 1 : kAcknowledgeBytes)) flush(stream);
  }
  switch (state) {
    case TcpInbound::State::idle: break;
    case TcpInbound::State::more: more_ = true; break;
    case TcpInbound::State::waits:
      if (stream.outbound.error() != 0) {  // no thread reads it to its end, where the break would show
        handled += link_ended(link, TcpInbound::State::broken);
      } else {
        watch_link(stream);
      }
      break;
    case TcpInbound::State::ended:
    case TcpInbound::State::broken:
    case TcpInbound::State::unsound:
    case TcpInbound::State::wrong: handled += link_ended(link, state); break;
  }
  if (peer.streams[1]) handled += receive_waiting(peer);
  return handled;
}

// What one stream has received may be what another has waited for.
int TcpPath::receive_waiting(Peer& peer) {
  int handled = 0;
  for (auto& stream : peer.streams) {
    if (!stream || !stream->link || !stream->inbound.can_go_on()) continue;
    handled += receive(*stream->link);
    if (stream && stream->link) watch_link(*stream);
    break;  // that call has checked all of them again
  }
  return handled;
}

bool TcpPath::arriving() const {
  return hot_.any([](const Link& link) { return link.stream->inbound.certain_to_come() != 0; }) &&
         arrivals_.fast(clock_.now_ns());
}

bool TcpPath::arm() {
  if (!sending_.finished.empty() || !doomed_.empty() || more_) return false;
  ++armed_;
  const uint64_t now = clock_.now_ns();
  bool unsure = false;
  uint64_t nap_ns = tcp::LinkMonitor::kInterval_ns;
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
    if (stream.linked()) watch_link(stream);
    ask_for(stream, stream.inbound.certain_to_come());
  });
  may_be_unsure_ = unsure;
  wake_ns_ = ~uint64_t{0};
  if (unsure) look_after_unsure(nap_ns);
  if (sending_.finished.empty() && port_->arm()) return true;
  disarm();
  return false;
}

// Acknowledgements wake no thread. While asleep: unacknowledged data is checked in time, also what is sent from now
// on.
void TcpPath::look_after_unsure(uint64_t nap_ns) { wake_ns_ = std::min(wake_ns_, clock_.now_ns() + nap_ns); }

void TcpPath::disarm() {
  TERN_ASSERT(armed_ > 0);
  if (--armed_ != 0) return;
  for (Stream* stream = blocked_.front(); stream; stream = blocked_.next(stream)) watch_link(*stream);
}

bool TcpPath::has_unsent() const {
  bool unsent = false;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    for (const auto& stream : peer->streams) {
      if (!stream) continue;
      // The calling thread may sleep for long: a peer that does the same waits for our acknowledgement, which the
      // kernel would delay.
      if (stream->link) port_->acknowledge_at_once(stream->link->handle.get());
      unsent = stream->outbound.unsure() || unsent || !stream->outbound.empty() || stream->outbound.owed() != 0;
    }
  }
  return unsent;
}

void TcpPath::tell_on_the_way(std::vector<InTransit>& all) {
  for (size_t id = 0; id < peers_.size(); ++id) {
    const auto& peer = peers_[id];
    if (!peer) continue;
    InTransit about{PeerId(id), "tcp"};
    for (const auto& stream : peer->streams) {
      if (!stream) continue;
      const uint64_t bytes = stream->outbound.backlog();
      const bool arriving = stream->inbound.incomplete();
      StreamPort::Silence silence;
      if ((bytes != 0 || arriving) && stream->link && port_->silence(stream->link->handle.get(), silence))
        about.silent_ms = std::min<uint64_t>(about.silent_ms, silence.silent_ms);
      about.bytes += bytes;
      about.arriving |= arriving;
    }
    if (about.bytes != 0 || about.arriving) all.push_back(about);
  }
}

}  // namespace tern
