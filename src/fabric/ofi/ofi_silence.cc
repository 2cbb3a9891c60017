#include "fabric/ofi/ofi_silence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"

namespace tern {
namespace {

// Where another path would take over, peers are looked at so often.
constexpr uint64_t kOfiLook_ns = 20 * kMillisecond_ns;
// A silent peer to which something went is asked for an answer after this part of the time after which it is given up:
// so it has most of that time for its answer.
constexpr uint64_t kPartBeforePing = 4;

}  // namespace

OfiSilence::OfiSilence(const OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers, const Tunables& tunables)
    : adapter_(adapter),
      streams_(streams),
      peers_(peers),
      keepalive_ns_(uint64_t(tunables.ofi_keepalive_ms) * kMillisecond_ns),
      failover_ns_(uint64_t(tunables.ofi_failover_ms) * kMillisecond_ns) {}

void OfiSilence::on_ping(OfiPeer& peer) {
  if (peer.met) (void)streams_.send_sign(peer, wire::OfiFrameType::pong);
  else unanswered_.push_back(&peer);
}

void OfiSilence::answer() {
  for (OfiPeer* peer : std::exchange(unanswered_, {}))
    if (!peer->lost && !peer->doomed) (void)streams_.send_sign(*peer, wire::OfiFrameType::pong);
}

void OfiSilence::look_after(const std::vector<std::unique_ptr<OfiPeer>>& all, uint64_t now_ns) {
  for (const auto& peer : all) {
    if (peer && !peer->lost && !peer->doomed) look_after(*peer, now_ns);
  }
  uint64_t pause = replaceable_ ? kOfiLook_ns : kNever_ns;
  if (keepalive_ns_ != 0) pause = std::min(pause, std::max(keepalive_ns_ / 2, kOfiLook_ns));
  next_look_ns_ = pause == kNever_ns ? pause : now_ns + pause;
}

// `heard_ns` 0: it was heard since the last look.
void OfiSilence::look_after(OfiPeer& peer, uint64_t now_ns) {
  if (peer.id == adapter_.options.peers->me() || (!peer.met && peer.heard_ns == 0 && !peer.spoken)) return;
  if (peer.heard_ns == 0) peer.heard_ns = now_ns;
  if (peer.ping_due) peer.ping_due = !streams_.send_sign(peer, wire::OfiFrameType::ping);
  const uint64_t silent_ns = now_ns - peer.heard_ns;
  if (replaceable_ && peer.pinged_ns != 0 && now_ns - peer.pinged_ns >= failover_ns_) {
    peers_.doom(peer, "it has not answered for " + std::to_string((now_ns - peer.pinged_ns) / kMillisecond_ns) +
                          " ms (TERN_OFI_FAILOVER_MS)");
    return;
  }
  // Also what the provider still has: it may take nothing more from this rank, which then has not spoken since.
  const bool asked = peer.spoken || peer.outstanding != 0;
  const bool owes = replaceable_ && asked && silent_ns >= failover_ns_ / kPartBeforePing;
  const bool silent = keepalive_ns_ != 0 && silent_ns >= keepalive_ns_ && peer.outstanding == 0;
  if (peer.pinged_ns != 0 || (!owes && !silent)) {
    if (silent && !replaceable_) peer.pinged_ns = 0;
    return;
  }
  peer.pinged_ns = now_ns;
  peer.ping_due = !streams_.send_sign(peer, wire::OfiFrameType::ping);
}

}  // namespace tern
