// Starting, cancelling and freeing requests; generalized requests. Source: MPI 5.0
// sections 3.7.3, 3.8.4, 3.9, 13.2.
#include "capi/checks.h"
#include "capi/continuations.h"
#include "capi/requests.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

Error start(Call& call, Request& request) {
  if (!request.persistent()) {
    return Error(ErrorClass::request,
                 "the request is not persistent. Only requests of MPI_Send_init and its kin can be started.");
  }
  if (request.active()) {
    return Error(ErrorClass::request, "the request is already active. Wait for it before starting it again.");
  }
  Checks* const checks = call.checks();
  return checks ? checks->start(request) : request.start();
}

// A freed request that is not complete keeps its communicator and is counted there, for MPI_Comm_disconnect.
void leave_to_communicator(Request& request) {
  auto* comm = static_cast<Communicator*>(request.error_object);
  if (!comm || request.on_complete) return forget_communicator(request);
  ++comm->freed_requests;
  request.error_object = nullptr;
  request.watcher = comm;
  request.on_complete = [](Request& completed) {
    Ref<Communicator> last = Ref<Communicator>::adopt(static_cast<Communicator*>(completed.watcher));
    --last->freed_requests;
  };
}

// A freed access that is not complete keeps its file.
void leave_to_file(Request& request) {
  if (request.complete()) {
    take_file(request);
    return;
  }
  request.watcher = request.error_object;
  request.error_object = nullptr;
  request.on_complete = [](Request& completed) { Ref<File>::adopt(static_cast<File*>(completed.watcher)); };
}

// A freed one-sided operation that is not complete keeps its window.
void leave_to_window(Request& request) {
  if (request.complete()) {
    take_window(request);
    return;
  }
  request.watcher = request.error_object;
  request.error_object = nullptr;
  request.on_complete = [](Request& completed) { Ref<Window>::adopt(static_cast<Window*>(completed.watcher)); };
}

void blame_object(Call& call, Request& request) {
  if (!request.error_object) return;
  if (request.kind() == Request::Kind::window) return call.blame(static_cast<Window*>(request.error_object));
  if (request.kind() == Request::Kind::file) {
    call.blame_last(Ref<File>::share(static_cast<File*>(request.error_object)));
  } else {
    call.blame(static_cast<Communicator*>(request.error_object));
  }
}

/// Whether a request may be freed, as far as continuations are concerned.
Error check_continuations(const Request& request) {
  if (request.continued)
    return Error(ErrorClass::request, "the request has a continuation that has not run. Free it afterwards");
  if (request.kind() != Request::Kind::continuation || request.active()) return {};
  const int left = static_cast<const ContinuationRequest&>(request).pending();
  if (left == 0) return {};
  return Error(ErrorClass::request,
               fmt::format("{} of the continuation request have not run, and never will. Start it before it is freed",
                           left == 1 ? "1 continuation" : fmt::format("{} continuations", left)));
}

/// Whose requests MPI_Cancel does not take (3.8.4, 4.2.1, 6.12, 6.13, 12.3.5); null: it does.
const char* never_cancelled(const Request& request) {
  if (is_collective(request)) return "a collective operation";
  if (request.kind() == Request::Kind::partitioned) return "a partitioned operation";
  if (request.kind() == Request::Kind::window) return "a one-sided operation";
  if (request.kind() == Request::Kind::continuation) return "continuations";
  return nullptr;
}

}  // namespace

namespace body {

Error Start(Call& call, Request*& request) {
  if (request->error_object) call.blame(static_cast<Communicator*>(request->error_object));
  return start(call, *request);
}

Error Startall(Call& call, Count count, MPI_Request* array_of_requests) {
  for (Count i = 0; i < count; ++i) {
    Request* request = call.find(array_of_requests[i]);
    if (!request) {
      return Error(ErrorClass::request, fmt::format("element {} of argument 'array_of_requests' is no request", i));
    }
    if (request->error_object) call.blame(static_cast<Communicator*>(request->error_object));
    if (Error error = start(call, *request)) return std::move(error).context(fmt::format("element {}", i));
  }
  return {};
}

Error Cancel(Call& call, Request*& request) {
  blame_object(call, *request);
  if (const char* whose = never_cancelled(*request)) {
    return Error(ErrorClass::request,
                 fmt::format("the request belongs to {}, which cannot be cancelled. Complete it", whose));
  }
  if (!is_active(request)) {
    return Error(ErrorClass::request, "the request is inactive: there is nothing to cancel");
  }
  request->cancel();
  if (request->kind() == Request::Kind::generalized) {
    if (int code = static_cast<GeneralizedRequest*>(request)->cancel_error(); code != MPI_SUCCESS) {
      return Error(code, "the cancel function of the generalized request returned an error");
    }
  }
  return {};
}

Error Request_free(Call& call, Request*& request) {
  // 3.7.3, 4.2.1, 6.12 and 6.13 call freeing these erroneous, 3.7.6 has "test, wait or free" follow a status that says
  // complete; then nothing can go wrong.
  const bool partitioned = request->kind() == Request::Kind::partitioned;
  if ((is_collective(*request) || partitioned) && !request->complete()) {
    blame_object(call, *request);
    return Error(ErrorClass::request,
                 fmt::format("the request belongs to a {} operation that is active, which must be completed before "
                             "it is freed. Use MPI_Wait or MPI_Test",
                             partitioned             ? "partitioned"
                             : request->persistent() ? "persistent collective"
                                                     : "nonblocking collective"));
  }
  if (Error error = check_continuations(*request)) return error;
  if (Communicator* comm = request->complete() ? nullptr : call.world().comm_of(*request)) {
    call.world().engine_of(*request)->retire();  // its end concerns the communicator
    if (!request->error_object) request->error_object = Ref<Communicator>::share(comm).release();
  }
  call.process().progress().release_held();
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->freeing(*request);
  if (request->kind() == Request::Kind::file) {
    leave_to_file(*request);
  } else if (request->kind() == Request::Kind::window) {
    leave_to_window(*request);
  } else if (request->complete()) {
    forget_communicator(*request);
  } else {
    leave_to_communicator(*request);
  }
  request->error = Error();
  int code = MPI_SUCCESS;
  // The address of a local must not outlive this call.
  if (request->kind() == Request::Kind::generalized && request->complete()) {
    static_cast<GeneralizedRequest*>(request)->free_error = &code;
  }
  request->release();
  request = nullptr;
  if (code != MPI_SUCCESS) return Error(code, "the free function of the generalized request returned an error");
  return {};
}

Error Grequest_start(Call& call, MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                     MPI_Grequest_cancel_function* cancel_fn, void* extra_state, Request*& request) {
  request = new GeneralizedRequest(query_fn, free_fn, cancel_fn, extra_state);
  return {};
}

Error Grequest_complete(Call& call, Request& request) {
  if (request.kind() != Request::Kind::generalized) {
    return Error(ErrorClass::request, "the request was not made by MPI_Grequest_start");
  }
  if (request.complete()) return Error(ErrorClass::request, "the request is complete already");
  request.set_complete();
  call.process().progress().notify();
  return {};
}

}  // namespace body
}  // namespace tern::capi
