// Request: an operation in progress. The head that every kind shares (point-to-point, collective, generalized); the
// engine that made it completes it, those that wait watch `complete`.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/object.h"
#include "base/types.h"

namespace tern {

/// What MPI_Status says, before it is an MPI_Status.
struct Status {
  int source = kAnySource;
  int tag = kAnyTag;
  Count bytes = 0;
  bool cancelled = false;
};
/// The empty status of MPI 5.0 3.7.3: source ANY_SOURCE, tag ANY_TAG, count 0, not cancelled.
inline constexpr Status kEmptyStatus{};
/// What a receive from MPI_PROC_NULL gives (MPI 5.0, 3.10).
inline constexpr Status kProcNullStatus{.source = kProcNull, .tag = kAnyTag, .bytes = 0, .cancelled = false};

class Endpoint;
struct DebugLayout;

class Request : public Object {
 public:
  enum class Kind : uint8_t { send, receive, collective, done, generalized, file, window, partitioned, continuation };

  explicit Request(Kind kind) : kind_(kind) {}
  virtual ~Request() = default;

  Kind kind() const { return kind_; }
  /// Completed: `status` and `error` are valid and the operation touches no user memory any more. For an inactive
  /// persistent request also true.
  bool complete() const { return complete_; }
  /// A persistent request: survives completion, `start` begins it again.
  bool persistent() const { return persistent_; }
  /// False for a persistent request that has not been started, or was seen to complete since (MPI 5.0, 3.9).
  bool active() const { return active_; }

  /// Begins a persistent request again. Only when persistent and inactive.
  virtual Error start() { return Error(ErrorClass::request, "the request is not persistent"); }
  /// MPI_Cancel: asks only; the request still completes, `status.cancelled` says how.
  virtual void cancel() {}
  /// A completed nonpersistent request is given back with `release`; a persistent one is released by MPI_Request_free.
  /// An incomplete request that the user frees is released too: it destroys itself on completion.
  void release() {
    if (complete_) {
      destroy();
    } else {
      orphaned_ = true;
    }
  }
  /// After a wait or test saw a persistent request complete.
  void set_inactive() { active_ = false; }

  /// Called once by the engine on completion.
  void set_complete() {
    complete_ = true;
    if (on_complete) on_complete(*this);
    if (orphaned_) destroy();
  }

  Status status;
  Error error;  ///< no error: success
  /// The peer whose messages complete it; null: several may, or none.
  Endpoint* from = nullptr;
  /// Watcher of an internal owner (a schedule); called from set_complete under the rank's lock.
  void (*on_complete)(Request&) = nullptr;
  void* watcher = nullptr;
  /// Owned by capi: the communicator (Object) whose error handler an error goes to; null: none known.
  Object* error_object = nullptr;

  /// Owned by capi: a continuation takes it over when it is complete.
  bool continued = false;

  /// Makes this a persistent request that waits for its first start.
  void make_persistent() {
    persistent_ = true;
    complete_ = true;
    active_ = false;
  }

 protected:
  friend struct DebugLayout;  // capi/debug_view.h
  /// A persistent request begins again.
  void restart() {
    complete_ = false;
    active_ = true;
    status = kEmptyStatus;
    error = {};
  }
  /// Gives the storage back to its pool (or deletes).
  virtual void destroy() = 0;

  Kind kind_;
  bool complete_ = false;
  bool persistent_ = false;
  bool active_ = true;
  bool orphaned_ = false;
};

}  // namespace tern
