// What the bodies share about requests: completing them for the user, and kinds of requests that only the C
// API has. Source: MPI 5.0 sections 3.7, 3.9, 13.2. Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "capi/call.h"
#include "io/file_request.h"

namespace tern::capi {

/// MPI_Grequest_start: the user completes it; callbacks give the status and free the state.
class GeneralizedRequest final : public Request {
 public:
  GeneralizedRequest(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                     MPI_Grequest_cancel_function* cancel_fn, void* state)
      : Request(Kind::generalized), query_(query_fn), free_(free_fn), cancel_(cancel_fn), state_(state) {}
  void cancel() override { cancel_error_ = cancel_ ? cancel_(state_, complete_) : MPI_SUCCESS; }
  int cancel_error() const { return cancel_error_; }
  /// Asks the user for the status; returns the user's error code.
  int query(MPI_Status& asked) { return query_ ? query_(state_, &asked) : MPI_SUCCESS; }
  /// What the user's free function returned; only for the caller of release().
  int* free_error = nullptr;

 private:
  void destroy() override {
    int code = free_ ? free_(state_) : MPI_SUCCESS;
    if (free_error) *free_error = code;
    delete this;
  }
  MPI_Grequest_query_function* query_;
  MPI_Grequest_free_function* free_;
  MPI_Grequest_cancel_function* cancel_;
  void* state_;
  int cancel_error_ = MPI_SUCCESS;
};

/// A persistent request whose operation is complete as soon as it is started: MPI_Bsend_init, and partners
/// MPI_PROC_NULL.
class InstantRequest : public Request {
 public:
  InstantRequest(Kind kind, const Status& result) : Request(kind) {
    persistent_ = true;
    active_ = false;
    complete_ = true;
    status = result;
  }
  Error start() override {
    active_ = true;
    return {};
  }

 protected:
  void destroy() override { delete this; }
};

/// A request that is to be looked at: neither null nor an inactive persistent one.
inline bool is_active(const Request* request) { return request && (!request->persistent() || request->active()); }

/// Ends the request's tie to its communicator.
inline void forget_communicator(Request& request) {
  if (request.error_object) Ref<Communicator>::adopt(static_cast<Communicator*>(request.error_object));
  request.error_object = nullptr;
}
/// Takes the file out of the request of an access, whose error handler it has.
inline Ref<File> take_file(Request& request) {
  return Ref<File>::adopt(static_cast<File*>(std::exchange(request.error_object, nullptr)));
}

/// And for one-sided operations.
inline Ref<Window> take_window(Request& request) {
  return Ref<Window>::adopt(static_cast<Window*>(std::exchange(request.error_object, nullptr)));
}

/// Whether it belongs to a collective operation, on a communicator or a file.
inline bool is_collective(const Request& request) {
  return request.kind() == Request::Kind::collective ||
         (request.kind() == Request::Kind::file && static_cast<const io::FileRequest&>(request).is_collective());
}

/// A request whose completion can neither fail nor keep it, nor runs a callback.
inline bool is_plain(const Request& request) {
  return !request.persistent() && !request.error && request.kind() < Request::Kind::generalized;
}
[[gnu::always_inline]] inline void finish_plain(Request& request, MPI_Status* status) {
  put_status(status, request.status);
  forget_communicator(request);
  request.release();
}

Error finish_slowly(Call& call, Request*& request, MPI_Status* status);
/// As finish, outside of the request's own call: whose error handler an error is for goes to `comm`.
Error finish_outside(Request& request, MPI_Status* status, Ref<Communicator>& comm);
/// After completion: gives `status` its values (null: not wanted; MPI_ERROR stays), gives the request back
/// unless it is persistent, and sets `request` to null when it did. Blames the communicator for an error.
[[gnu::always_inline]] inline Error finish(Call& call, Request*& request, MPI_Status* status) {
  if (!is_plain(*request)) [[unlikely]]
    return finish_slowly(call, request, status);
  finish_plain(*request, status);
  request = nullptr;
  return {};
}

/// The buffer that a buffered send through the communicator uses: its own, its session's, or the rank's.
AttachedBuffer& buffer_for(World& world, Communicator& comm);
/// The session that the communicator was derived from; null in the World Model.
Session* session_of(World& world, Communicator& comm);

}  // namespace tern::capi
