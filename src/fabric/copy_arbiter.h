// CopyArbiter: who of two ranks on one node copies a long message. Where get and put are copies by a CPU, either side
// could make them; the one that has time first should. Only the deferred copies of point-to-point messages ask it
// (p2p/deferred_copies.h, p2p/transfers.h); shared memory has it, and the simulated node.
//
// Thread rule: as Path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/lane.h"
#include "fabric/remote_memory.h"

namespace tern {

struct CopyArbiterProperties {
  bool copy_locks = false;  ///< add_copy_lock works
  /// After so many bytes it is worth looking whether the peer has come to take its part of a stream instead; 0: never.
  /// `first_piece_bytes`: the first time, if the peer may come at any moment.
  size_t piece_bytes = 0, first_piece_bytes = 0;
  uint32_t idle_polls = 0;  ///< a rank that polls empty so often has time for a copy that its peer would have to make
};

class CopyArbiter {
 public:
  const CopyArbiterProperties& arbiter_properties() const { return arbiter_properties_; }

  /// Adds to the key of memory that is exposed here a lock that the first one to try gets: whether the owner puts what
  /// is there or the peer gets it is decided when one of them has time. Given back by `conceal`. A key may stay
  /// without.
  virtual void add_copy_lock(RemoteKey& key) {}
  /// Whether this rank may transfer that memory. `owner`: whose it is; null: this rank's. Keys without a lock: yes.
  virtual bool try_lock_copy(Lane* owner, const RemoteKey& key) { return true; }

  /// Memory of the path's own, as long-lived as the path, from which peers that `can_get_lent` confirms can get; null:
  /// there is none (any more), and what the caller allocates can be exposed instead.
  virtual std::byte* lend(size_t bytes, RemoteKey& key) { return nullptr; }
  virtual bool can_get_lent(Lane& lane) { return false; }

  /// Whether a message of that length crosses faster as a stream, which both ranks copy, than by one get or put; if both
  /// are there to copy.
  virtual bool stream_is_faster(Lane& lane, size_t bytes) { return true; }

  /// For peers that must decide whose CPU copies: this rank is in its library now. Called in every round of progress
  /// while that may be asked.
  virtual void publish_heartbeat() {}
  /// Whether the peer is in its library just now, so that it would take its part of a copy. May look for a moment (0.5
  /// us), which is saved if the peer `stays`: it has said that it does not leave before it has what this is about.
  virtual bool peer_is_polling(Lane& lane, bool stays = false) = 0;
  /// After a get or put: whether the peer is in its library now, or has been while that lasted. Costs less.
  virtual bool peer_has_polled(Lane& lane) { return peer_is_polling(lane); }

 protected:
  ~CopyArbiter() = default;
  CopyArbiterProperties arbiter_properties_;
};

}  // namespace tern
