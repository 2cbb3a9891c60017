// WindowContext: what all parts of one window know: whose it is, and how its errors and messages name it.
// Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <string>

#include "rma/environment.h"
#include "rma/operation.h"
#include "wire/window.h"

namespace tern::rma {

struct WindowContext {
  WindowContext(Environment& its_environment, Flavor its_flavor)
      : environment(its_environment), flavor(its_flavor), counters_(its_environment.counters()) {}
  WindowContext(const WindowContext&) = delete;
  WindowContext& operator=(const WindowContext&) = delete;

  Environment& environment;
  const Flavor flavor;
  Ref<Communicator> comm;  ///< the window's own; null until the ranks have agreed on it
  std::string name;        ///< for errors and reports; empty: none was set
  /// Operations of others need this rank's processor. Constant once the window is made.
  bool serves = true;
  /// Info key tern_rma_lock_at_once: MPI_Win_lock returns with the lock held, also where the first operation would ask
  /// for it.
  bool lock_at_once = false;

  uint64_t id() const { return comm->context(); }
  int me() const { return comm->rank(); }
  bool own(int rank) const { return rank == comm->rank(); }
  Counters& counters() const { return counters_; }
  ProgressEngine& progress() const { return environment.progress(); }
  wire::Header header(wire::Kind kind, uint32_t token = 0) const {
    return wire::make_header(kind, comm->rank(), id(), 0, token);
  }
  std::string describe() const;
  /// MPI_ERR_RMA_SYNC.
  Error sync_error(const std::string& text) const;
  /// MPI_ERR_RANK: it is no rank of the window.
  Error check_rank(int rank) const;
  /// Sends a rank that may sleep a message, so that it looks at the memory that both share.
  void nudge(int rank) const;

 private:
  Counters& counters_;  ///< the rank's: every operation counts
};

}  // namespace tern::rma
