#include "p2p/protocols/protocol_choice.h"

#include <algorithm>
#include <string>

namespace tern {

namespace {
// A message that is too long would change a byte that is watched without being what the watcher takes it for.
bool takes_put(const wire::ReadyBody& to, size_t bytes) {
  return to.address != 0 && !(to.watched() && bytes > to.capacity);
}

// Where a copy costs the sender CPU time, one that may go off computing leaves it to the receiver, from a quarter of
// the hybrid limit on. Over shared memory, 2 cores: a message of 16 KiB whose receive is late takes 4 us if the sender
// copies it and 6 if it is fetched; 32 KiB take 7 either way, 64 KiB 16 and 11. Of a copy nothing is hidden by the
// sender's computation, of a fetch 84 % and more (docs/rendezvous.md).
constexpr size_t kNonblockingDivisor = 4;

constexpr const char* kModes[] = {"customised", "rput", "rget", "stream", "tupleq"};
}  // namespace

Error parse_rendezvous(const Tunables& tunables, RendezvousPolicy& policy) {
  auto found = std::find(std::begin(kModes), std::end(kModes), tunables.rendezvous);
  if (found == std::end(kModes)) {
    return Error(ErrorClass::arg, "TERN_RENDEZVOUS is '" + tunables.rendezvous +
                                      "', but takes customised, rput, rget, stream or tupleq");
  }
  if (tunables.sender_rendezvous != "read" && tunables.sender_rendezvous != "write") {
    return Error(ErrorClass::arg,
                 "TERN_SENDER_RENDEZVOUS is '" + tunables.sender_rendezvous + "', but takes read or write");
  }
  policy.mode = RendezvousMode(found - std::begin(kModes));
  policy.by_write = policy.mode == RendezvousMode::rput ||
                    (policy.mode == RendezvousMode::customised && tunables.sender_rendezvous == "write");
  return {};
}

Error check_rendezvous_tunables(const Tunables& tunables) {
  RendezvousPolicy policy;
  return parse_rendezvous(tunables, policy);
}

void ProtocolChoice::complete(SendSituation& s, const Endpoint& peer, const SendArguments& a, const Ready* ready) {
  s.by_write = policy_.by_write;
  if (policy_.mode == RendezvousMode::stream) return;
  const size_t hybrid_bytes = peer.properties().hybrid_bytes;
  const bool customised = is_customised(policy_.mode, peer.tuples);
  const bool contiguous = a.type->is_contiguous();
  // While senders know of as much that this rank receives, the message may be a part of an exchange. Its receiver finds
  // out, and may still ask for a stream. A blocking send of medium size does not wait for that: it is soon over.
  const bool exchange = receives_.offered_bytes() >= s.bytes && !(s.blocking && s.bytes <= hybrid_bytes);
  s.stream_faster = customised && peer.stream_is_faster(s.bytes, exchange ? Traffic::exchange : Traffic::one_way);
  // Where both attend, neither computes while the other one copies: only the speed of the copy counts.
  const bool attended = customised && a.attended && peer.copy_locks();
  if (!attended || !s.stream_faster) {
    s.ready = ready;
    const bool may_put = ready ? takes_put(ready->body, s.bytes) : policy_.by_write;
    s.can_put = contiguous && may_put && peer.can_put();
    s.can_get = contiguous && peer.can_get() && !policy_.by_write;
  }
  if (!customised) return;
  const bool left_to_receiver = !s.blocking && !ready && s.can_get && !peer.autonomous();
  const size_t copied_bytes = left_to_receiver ? hybrid_bytes / kNonblockingDivisor : hybrid_bytes;
  const bool fetched = attended && s.can_get;
  if (a.mode != SendMode::synchronous && s.bytes <= copied_bytes && peer.can_get_lent() && !fetched) {
    if (buffers_.any_for(peer)) s.hybrid_limit = hybrid_bytes;
    else ++counters_.no_buffer;
  }
  if (!s.ready) return;
  // A message of medium size is streamed to a receiver that is there without asking it: it is soon over.
  const bool soon_over = s.bytes <= s.hybrid_limit;
  s.mover = who_copies({.side = CopySide::sender,
                        .can_put = s.can_put,
                        .can_get = s.can_get,
                        .stream_faster = s.stream_faster,
                        .leaves = !s.blocking || exchange,
                        .lockable = s.can_put && peer.copy_locks() && !peer.autonomous(),
                        .soon_over = soon_over},
                       [&] { return peer.peer_is_polling(ready->body.stays()); });
}

}  // namespace tern
