// Operations on their way down, completions on their way up. See ofi_path.h.
#include "fabric/ofi/ofi_path.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern {
namespace {

// A poll takes at most kBatches batches of kBatch completions from the port.
constexpr int kBatches = 8, kBatch = 16;

}  // namespace

bool OfiPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= std::max(properties_.eager_bytes, kAlwaysWholeBytes));
  auto& peer = static_cast<OfiPeer&>(lane);
  return !peer.lost && !peer.doomed && streams_.try_send(peer, header, payload, bytes);
}

void OfiPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<OfiPeer&>(*operation.lane);
  if (peer.lost || peer.doomed) {
    operation.total_bytes = operation.payload.remaining();
    operation.header_sent = false;
    unsendable_.push_back(&operation);
    return;
  }
  streams_.enqueue(peer, operation);
}

bool OfiPath::withdraw(SendOperation& operation) {
  auto& peer = static_cast<OfiPeer&>(*operation.lane);
  return !peer.lost && !peer.doomed && streams_.withdraw(operation);
}

TupleQueues* OfiPath::tuple_queues() {
  if (!tuples_ && !silence_.is_replaceable() && OfiTuples::possible(capabilities()))
    tuples_ = OfiTuples::create(adapter_, streams_, *this, tunables_);
  return tuples_.get();
}

void OfiPath::keep_busy(OfiPeer& peer) {
  if (std::exchange(peer.busy, true)) return;
  busy_.push_back(&peer);
}

int OfiPath::poll() {
  streams_.end_bursts();
  int handled = take_completions();
  adapter_.repost();
  if (silence_.owes_answers()) silence_.answer();
  if (!busy_.empty()) pump_busy();
  if (tuples_) (void)tuples_->pump();
  if (streams_.anything_to_complete()) handled += streams_.complete();
  if (!doomed_.empty() || !unsendable_.empty()) handled += lose_doomed();
  if (++polls_ >= kTimerPolls && (handled == 0 || polls_ >= 2 * kTimerPolls)) {
    polls_ = 0;
    counters().ofi_held = adapter_.held;
    if (silence_.any()) {
      const uint64_t now = adapter_.clock.now_ns();
      if (now >= silence_.next_look_ns()) silence_.look_after(peers_, now);
    }
  }
  return handled;
}

int OfiPath::take_completions() {
  ofi::Completion batch[kBatch];
  int handled = 0;
  for (int i = 0; i < kBatches; ++i) {
    const int count = adapter_.poll(batch, kBatch);
    if (count < 0) {  // the queue itself: nothing can be sent or received any more
      const std::string trouble = adapter_.port->explain("fi_cq_read", count);
      for (auto& peer : peers_) {
        if (peer) doom(*peer, trouble);
      }
      break;
    }
    for (int k = 0; k < count; ++k) handle(batch[k]);
    handled += count;
    if (count < kBatch) break;
  }
  return handled;
}

// No card of a peer, no loss of one, no end of an operation, no timer: the first completion that needs the rank, and
// those behind it, are left to poll.
int OfiPath::poll_shortly() {
  const bool due = adapter_.any_stashed() || !doomed_.empty() || !unsendable_.empty() || silence_.owes_answers();
  if (due || tuples_) return -1;
  streams_.end_bursts();
  ofi::Completion batch[kBatch];
  const int count = adapter_.poll(batch, kBatch);
  if (count < 0) return -1;  // poll will find the same
  for (int k = 0; k < count; ++k) {
    const OfiOperation::Kind kind = static_cast<const OfiOperation&>(*batch[k].context).kind;
    const bool is_frame = kind == OfiOperation::Kind::receive || kind == OfiOperation::Kind::send;
    if (adapter_.any_stashed() || !is_frame || batch[k].error != 0) adapter_.stash(batch[k]);
    else handle(batch[k]);
  }
  adapter_.repost();
  if (!busy_.empty()) pump_busy();
  return adapter_.any_stashed() || !doomed_.empty() || silence_.owes_answers() ? -1 : count;
}

void OfiPath::handle(const ofi::Completion& completion) {
  auto& operation = static_cast<OfiOperation&>(*completion.context);
  switch (operation.kind) {
    case OfiOperation::Kind::receive: on_receive(completion); return;
    case OfiOperation::Kind::send: streams_.on_sent(static_cast<OfiBuffer&>(operation), completion.error); return;
    case OfiOperation::Kind::transfer: transfers_.on_part(operation, completion.error); return;
    case OfiOperation::Kind::tuple_send:
    case OfiOperation::Kind::tuple_receive: tuples_->on_completion(completion); return;
  }
}

void OfiPath::on_receive(const ofi::Completion& completion) {
  const std::byte* message = adapter_.message_of(completion);
  wire::OfiFrame frame;
  for (size_t begin = 0; message && begin < completion.bytes; begin += wire::ofi_stride(frame.bytes)) {
    if (!wire::parse_ofi_frame(message + begin, completion.bytes - begin, frame)) {
      ++counters().ofi_forged;
      break;
    }
    on_frame(frame, message + begin);
  }
  adapter_.receive_handled(completion);
}

void OfiPath::on_frame(const wire::OfiFrame& frame, const std::byte* data) {
  const PeerTable& table = *adapter_.options.peers;
  if (frame.source >= table.job_ranks() || frame.source == table.me()) {
    ++counters().ofi_forged;
    return;
  }
  OfiPeer& peer = peer_at(frame.source);
  if (frame.proof != peer.in_proof) {
    // Of an earlier incarnation: late, not forged.
    if (frame.incarnation == uint16_t(peer.incarnation)) ++counters().ofi_forged;
    return;
  }
  if (peer.lost || peer.doomed) return;
  peer.heard_ns = peer.pinged_ns = 0;
  peer.spoken = peer.ping_due = false;
  ++counters().ofi_received;
  switch (frame.type) {
    case wire::OfiFrameType::ping: silence_.on_ping(peer); return;
    case wire::OfiFrameType::pong:
    case wire::OfiFrameType::wake: return;  // this poll has found something: who waits looks again
    case wire::OfiFrameType::landed:
      if (tuples_) tuples_->on_landed(peer, wire::landed_of(frame));
      return;
    default: streams_.on_frame(peer, frame, data);
  }
}

void OfiPath::pump_busy() {
  std::vector<OfiPeer*> now;
  now.swap(busy_);
  for (OfiPeer* peer : now) {
    peer->busy = false;
    if (peer->lost || peer->doomed || !peer->met) continue;
    // Both: a sign of the first may wait for the frame that the second has staged.
    const bool transferred = transfers_.pump(*peer);
    if (!streams_.pump(*peer) || !transferred) keep_busy(*peer);
  }
}

bool OfiPath::arm() {
  if (adapter_.any_stashed() || !busy_.empty() || (tuples_ && !tuples_->pump()) || streams_.anything_to_complete() ||
      !doomed_.empty() || !unsendable_.empty() || !adapter_.port->arm())
    return false;
  streams_.set_armed(true);
  return true;
}

// What nobody waits for may stay until the application calls again.
bool OfiPath::anything_now() const {
  return silence_.owes_answers() || adapter_.any_stashed() || adapter_.outstanding != 0 || streams_.queued() != 0 ||
         !busy_.empty() || (tuples_ && tuples_->owes());
}

}  // namespace tern
