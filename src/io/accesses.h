// Accesses: how the bytes of an access get between memory and file: by this rank alone, under locks where atomic mode
// or the file system asks for it, in turn through a pipe, or with the other ranks in two phases (two_phase.h).
//
// Owns what one access leaves for the next: their order, the patterns of all ranks' views, whether this rank has
// written since the last sync. Where an access lies, and which accesses may begin, is the File's to say. accesses.cc:
// alone; collective.cc: together. Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "io/access.h"
#include "io/access_order.h"
#include "io/exchange.h"
#include "io/shared_pointer.h"
#include "io/team.h"

namespace tern::io {

struct Member;  // two_phase.h

/// One call of a data access routine.
struct Operation {
  enum class Position : uint8_t { explicit_offset, individual, shared };
  bool write;
  Position position;
  bool together;   ///< collective
  int64_t offset;  ///< explicit_offset only
  void* buffer;
  Count count;
  Datatype* type;
};

/// The patterns of all ranks' views, if they are short enough to be sent to all (collective.cc).
struct KnownPatterns {
  bool told = false;                         ///< since the view was set
  bool disjoint = false;                     ///< no byte is in two of them; false: perhaps
  bool first_disjoint = false;               ///< no byte is in the first filetypes of two of them; then `of` is whole
  std::vector<std::unique_ptr<Pattern>> of;  ///< by rank; null: too long
};

class Accesses {
 public:
  /// All of it outlives this.
  Accesses(Place place, Communicator& comm, const Team& team, SharedPointer& pointer)
      : at_(place), comm_(comm), team_(team), shared_pointer_(pointer), order_(place.environment.progress()) {}

  /// All of an access, whose bytes and (unless the shared pointer says it) position are set. `wrong`: what is wrong
  /// with this rank's call already; the others of a collective access hear of it.
  Flow perform(Access& access, Operation operation, int sequence, Error wrong);

  /// While no access is on its way.
  void set_atomic(bool atomic) { atomic_ = atomic; }
  bool atomic() const { return atomic_; }
  /// This rank has another view, and so have the others.
  void forget_patterns() { known_[0].told = known_[1].told = false; }
  /// Whether this rank has written since the last `note_synced`.
  bool dirty() const { return dirty_; }
  void note_synced() { dirty_ = false; }

 private:
  PointToPoint& p2p() { return at_.environment.p2p(); }
  // accesses.cc
  Flow move(Access& access);
  Flow move_guarded(Access& access, Lock kind);
  Flow move_stream(Access& access, bool together, int sequence);
  Flow take_shared(Access& access, bool together, int sequence);
  // collective.cc
  Flow tell_patterns(Exchange exchange, const std::vector<Member>& members, const std::vector<uint64_t>& mine,
                     KnownPatterns& patterns);
  Flow move_together(Access& access, int sequence, Error wrong);

  const Place at_;
  Communicator& comm_;
  const Team& team_;
  SharedPointer& shared_pointer_;
  AccessOrder order_;
  bool atomic_ = false;
  bool dirty_ = false;
  KnownPatterns known_[2];  ///< for reading and for writing
};

}  // namespace tern::io
