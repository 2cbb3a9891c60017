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

SendSituation ProtocolChoice::situation(Endpoint& peer, const SendArguments& a, size_t bytes, const Ready* ready,
                                        bool blocking) {
  const size_t hybrid_bytes = peer.properties().hybrid_bytes;
  const bool contiguous = a.type->is_contiguous();
  const bool customised = is_customised(policy_.mode, peer.tuples);
  SendSituation s{};
  s.bytes = bytes;
  s.eager_limit = peer.eager_limit();
  s.credit = peer.credit.covers(bytes);
  s.returns = !blocking;
  s.by_write = policy_.by_write;
  if (policy_.mode == RendezvousMode::stream) return s;
  // Where both attend, neither computes while the other one copies: only the speed of the copy counts.
  const bool attended = customised && a.attended && peer.copy_locks();
  if (!attended || !peer.stream_is_faster(bytes)) {
    s.ready = ready != nullptr;
    const bool may_put = ready ? takes_put(ready->body, bytes) : policy_.by_write;
    s.can_put = contiguous && may_put && peer.can_put();
    s.can_get = contiguous && peer.can_get() && !policy_.by_write;
  }
  if (!customised) return s;
  s.can_defer = ready && peer.copy_locks() && !peer.autonomous() && s.can_put && s.can_get;
  const bool fetched = attended && s.can_get;
  const bool left_to_receiver = s.returns && !ready && s.can_get && !peer.autonomous();
  const size_t copied_bytes = left_to_receiver ? hybrid_bytes / kNonblockingDivisor : hybrid_bytes;
  if (a.mode != SendMode::synchronous && bytes <= copied_bytes && peer.can_get_lent() && !fetched) {
    if (buffers_.any_for(peer)) s.hybrid_limit = hybrid_bytes;
    else ++counters_.no_buffer;
  }
  // Looking takes a moment, which is saved where the answer would change nothing.
  const bool matters =
      ready && !peer.autonomous() && (s.can_put || s.can_get) && !(s.returns && s.can_defer && bytes > s.hybrid_limit);
  s.receiver_polls = matters && peer.peer_streams(bytes, ready->body.stays());
  return s;
}

}  // namespace tern
