// OfiSilence: which peers of the ofi path are silent, and who is asked whether it is still there. A provider reports
// by an error that a peer is not reached any more; who only receives hears of no error, so it asks by pings. Where
// another path reaches the same peers, one that leaves pings unanswered for TERN_OFI_FAILOVER_MS is given up, too.
//
// Units: nanoseconds. Thread rule: the path's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tunables.h"
#include "fabric/ofi/ofi_peer.h"

namespace tern {

class OfiSilence {
 public:
  /// All outlive this.
  OfiSilence(const OfiAdapter& adapter, OfiStreams& streams, OfiPeers& peers, const Tunables& tunables);

  /// Another path reaches the same peers.
  void set_replaceable() { replaceable_ = true; }
  bool is_replaceable() const { return replaceable_; }
  /// There is a peer.
  void begin() {
    if (next_look_ns_ == kNever_ns) next_look_ns_ = 0;
  }
  /// When `look_after` is due. ~0: never, no peer was heard or spoken to.
  uint64_t next_look_ns() const { return next_look_ns_; }
  bool any() const { return next_look_ns_ != kNever_ns; }
  void look_after(const std::vector<std::unique_ptr<OfiPeer>>& all, uint64_t now_ns);

  /// That peer asks for a sign of life. One that is not met is answered by `answer`, since its card must be read.
  void on_ping(OfiPeer& peer);
  bool owes_answers() const { return !unanswered_.empty(); }
  void answer();

 private:
  static constexpr uint64_t kNever_ns = ~uint64_t{0};  ///< no time is so late
  void look_after(OfiPeer& peer, uint64_t now_ns);

  const OfiAdapter& adapter_;
  OfiStreams& streams_;
  OfiPeers& peers_;
  const uint64_t keepalive_ns_, failover_ns_;
  bool replaceable_ = false;
  std::vector<OfiPeer*> unanswered_;
  uint64_t next_look_ns_ = kNever_ns;
};

}  // namespace tern
