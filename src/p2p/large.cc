// Large messages: which protocol they take, and what every poll owes them. See protocol.h for the table.
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

namespace {
// A message that is too long would change a byte that is watched without being what the watcher takes it for.
bool takes_put(const wire::ReadyBody& to, size_t bytes) {
  return to.address != 0 && !(to.watched && bytes > to.capacity);
}

constexpr const char* kModes[] = {"customised", "rput", "rget", "stream", "tupleq"};
// Releases of library buffers wait for so many fruitless rounds for a message that takes them along.
constexpr uint32_t kPatience = 256;
}  // namespace

Error parse_rendezvous(const Tunables& tunables, RendezvousMode& mode, bool& by_write) {
  auto found = std::find(std::begin(kModes), std::end(kModes), tunables.rendezvous);
  if (found == std::end(kModes)) {
    return Error(ErrorClass::arg, "TERN_RENDEZVOUS is '" + tunables.rendezvous +
                                      "', but takes customised, rput, rget, stream or tupleq");
  }
  if (tunables.sender_rendezvous != "read" && tunables.sender_rendezvous != "write") {
    return Error(ErrorClass::arg,
                 "TERN_SENDER_RENDEZVOUS is '" + tunables.sender_rendezvous + "', but takes read or write");
  }
  mode = RendezvousMode(found - std::begin(kModes));
  by_write =
      mode == RendezvousMode::rput || (mode == RendezvousMode::customised && tunables.sender_rendezvous == "write");
  return {};
}

Error check_rendezvous_tunables(const Tunables& tunables) {
  RendezvousMode mode;
  bool by_write;
  return parse_rendezvous(tunables, mode, by_write);
}

// Paper 000, Figure 6: "check outstanding remote messages". From inside of a poll that is what is going on anyway.
void PointToPoint::Impl::look_around() {
  if (!progress.polling()) progress.poll();
}

SendSituation PointToPoint::Impl::situation(Endpoint& peer, const SendArguments& a, size_t bytes, const Ready* ready,
                                            bool blocking) {
  const size_t hybrid_bytes = peer.properties().hybrid_bytes;
  const bool contiguous = a.type->is_contiguous();
  SendSituation s{};
  s.bytes = bytes;
  s.eager_limit = peer.eager_limit();
  s.credit = peer.credit.covers(bytes);
  s.returns = !blocking;
  s.by_write = by_write;
  if (mode == RendezvousMode::stream) return s;
  // Where both attend nobody needs to copy alone while the other one computes: a stream is fastest.
  if (mode != RendezvousMode::customised || !a.attended || !peer.copy_locks()) {
    s.ready = ready != nullptr;
    s.can_put = contiguous && peer.can_put() && (!ready || takes_put(ready->body, bytes));
    s.can_get = contiguous && peer.can_get() && !by_write;
  }
  if (mode != RendezvousMode::customised) return s;
  s.can_defer = ready && peer.copy_locks() && !peer.autonomous() && s.can_put && s.can_get;
  if (a.mode != SendMode::synchronous && bytes <= hybrid_bytes && peer.can_get_lent()) {
    if (buffer_left(peer)) s.hybrid_limit = hybrid_bytes;
    else ++counters.no_buffer;
  }
  // Looking takes a moment, which is saved where the answer would change nothing.
  const bool matters =
      ready && !peer.autonomous() && (s.can_put || s.can_get) && !(s.returns && s.can_defer && bytes > s.hybrid_limit);
  s.attentive = matters && peer.peer_is_polling(ready->body.stays);
  return s;
}

void PointToPoint::Impl::begin_large(SendRequest& send, size_t bytes, bool blocking) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  const Ready* ready = peer.messages.find(a.context, a.tag);
  Protocol protocol = choose_protocol(situation(peer, a, bytes, ready, blocking));
  note_sent(protocol, a, bytes);
  switch (protocol) {
    case Protocol::eager: begin_eager(send, bytes, blocking); return;
    case Protocol::receiver_put: begin_put(send, bytes, *ready); return;
    case Protocol::receiver_stream: begin_direct(send); return;
    case Protocol::hybrid: begin_hybrid(send, bytes, blocking); return;
    default: begin_rendezvous(send, bytes, protocol, ready); return;
  }
}

// --- What every poll owes

int PointToPoint::Impl::do_chores() {
  int done = 0;
  if (attention != 0) heartbeat->publish_heartbeat();
  if (!watched.empty()) done += check_watched();
  if (!deferred.empty()) done += advance_deferred();
  // Before this rank sleeps (no poll is under way), or after some rounds, nobody waits for a message to take them
  // along.
  if (!owing_releases.empty() && (!progress.polling() || ++chore_rounds >= kPatience)) {
    chore_rounds = 0;
    done += flush_all_releases();
  }
  update_chores();
  return done;
}

void PointToPoint::Impl::update_chores() {
  bool wanted = attention != 0 || !watched.empty() || !deferred.empty() || !owing_releases.empty();
  if (wanted == chores.linked()) return;
  if (wanted) progress.activate(chores);
  else progress.deactivate(chores);
}

}  // namespace tern
