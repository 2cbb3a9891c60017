// CopyArbiter: decides which of two ranks on one node copies a long message. Where get and put are copies by a CPU,
// either side could make them; the one that has time first should. Point-to-point uses it
// (p2p/protocols/protocol_choice.h, p2p/protocols/deferred_copies.h, p2p/core/transfers.h), partitioned communication
// and windows ask it. Shared memory and the simulated node implement it.
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
  /// Length of the pieces of a get or put. After each piece the rank that copies checks whether the peer has entered
  /// its library, so that the rest can be streamed; 0: one piece. `first_piece_bytes`: the first piece, if the peer may
  /// enter at any moment.
  size_t piece_bytes = 0, first_piece_bytes = 0;
  /// A rank whose last `idle_polls` polls were all empty has time for a copy that its peer would have to make.
  uint32_t idle_polls = 0;
};

/// What the two ranks of a message have to move now: it alone; or another one of its length each, too.
enum class Traffic : uint8_t { one_way, exchange };

class CopyArbiter {
 public:
  const CopyArbiterProperties& arbiter_properties() const { return arbiter_properties_; }

  /// Adds a lock to the key of memory that is exposed here. The first rank to try the lock gets it and makes the copy:
  /// the owner puts, or the peer gets. `conceal` removes the lock. False: no lock is free, and the key stays without.
  virtual bool add_copy_lock(RemoteKey& key) { return false; }
  /// Whether this rank may transfer that memory. `owner`: the rank it belongs to; null: this rank. True without a lock.
  virtual bool try_lock_copy(Lane* owner, const RemoteKey& key) { return true; }

  /// Memory that belongs to the path and lives as long as it; peers that `can_get_lent` confirms can get from it. Null:
  /// none is left; memory that the caller allocates can be exposed instead.
  virtual std::byte* lend(size_t bytes, RemoteKey& key) { return nullptr; }
  virtual bool can_get_lent(Lane& lane) { return false; }

  /// Whether a message of that length is transferred faster as a stream, which both ranks copy, than by one get or put;
  /// provided that both ranks have time to copy. In an exchange both have copies of two messages to make if these are
  /// streamed, and of one each if they are fetched or put. Both ranks of a pair have one answer for a length; it may
  /// change from one message to the next.
  virtual bool stream_is_faster(Lane& lane, size_t bytes, Traffic traffic) { return true; }

  /// Tells peers, which decide whose CPU copies, that this rank is inside its library now. Called in every round of
  /// progress while peers may ask.
  virtual void publish_heartbeat() {}
  /// Whether the peer is inside its library now, so that it would take its part of a copy. May watch for 0.5 us; skips
  /// that if the peer `stays` (it has announced that it waits for this message).
  virtual bool peer_is_polling(Lane& lane, bool stays = false) = 0;
  /// After a get or put: whether the peer is, or was during the transfer, inside its library. Cheaper than the above.
  virtual bool peer_has_polled(Lane& lane) { return peer_is_polling(lane); }

 protected:
  ~CopyArbiter() = default;
  CopyArbiterProperties arbiter_properties_;
};

}  // namespace tern
