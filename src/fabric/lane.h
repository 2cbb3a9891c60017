// Lane: the way of one path to one peer. The path makes it when it is first asked for it, or when something comes from
// that peer, and keeps it as long as the path lives; each path derives its own. A call resolves its peer once and
// passes the lane on; an arrival names its peer without a look-up.
//
// Thread rule: under the rank's lock.
#pragma once

#include "base/types.h"

namespace tern {

struct Lane {
  explicit Lane(PeerId peer) : id(peer) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const PeerId id;  ///< of the peer
  /// What the sink keeps about the peer; null until the sink has seen this lane. The path never looks at it.
  void* owner = nullptr;

 protected:
  ~Lane() = default;
};

}  // namespace tern
