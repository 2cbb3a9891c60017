// OfiPeer: the ofi path's lane to one peer. Each part of the path keeps its own state of the peer in a struct of its
// own, which the other parts do not touch; state that all of them need stands here.
//
// Thread rule: the rank's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/coalescing.h"
#include "fabric/lane.h"
#include "fabric/ofi/ofi_adapter.h"
#include "fabric/ofi/ofi_streams.h"
#include "fabric/ofi/ofi_transfers.h"

namespace tern {

struct OfiPeer final : Lane {
  using Lane::Lane;

  bool met = false;     ///< its address is known to the port
  bool doomed = false;  ///< lost in the next poll
  bool lost = false;
  bool busy = false;                       ///< in the path's list: it has something that waits to be posted
  ofi::Address address = ofi::kNoAddress;  ///< after `met`
  uint64_t out_proof = 0, in_proof = 0;    ///< in frames to the peer (after `met`), and from it
  uint32_t incarnation = 0;                ///< how often the lane was restarted
  uint32_t outstanding = 0;                ///< buffers of frames that the port has
  size_t tuple_bytes = 0;                  ///< of messages to tuple queues that have not arrived
  uint64_t heard_ns = 0, pinged_ns = 0;    ///< last frame from it; oldest unanswered ping, 0: none
  bool spoken = false;                     ///< something went to it since it was last heard
  bool ping_due = false;                   ///< there was no room for the ping that `pinged_ns` counts from
  Coalescing coalescing;                   ///< of its small messages
  OfiStreams::OfPeer stream;
  OfiTransfers::OfPeer transfers;
  std::string trouble;  ///< why it is lost
};

/// What the parts ask of the path.
class OfiPeers {
 public:
  /// The lane to this rank's own memory.
  virtual OfiPeer& own() = 0;
  /// Makes the peer's address known to the port. May block. False: the peer is doomed.
  virtual bool meet(OfiPeer& peer) = 0;
  /// Something for that peer waits for room: its parts are pumped in the next poll.
  virtual void keep_busy(OfiPeer& peer) = 0;
  /// The peer is lost in the next poll. Idempotent.
  virtual void doom(OfiPeer& peer, std::string trouble) = 0;
  /// For operations that end because of it.
  virtual Error reason(const OfiPeer& peer) const = 0;

 protected:
  ~OfiPeers() = default;
};

}  // namespace tern
