// Waiting for and testing requests, one or many. Source: MPI 5.0 sections 3.7.3 to 3.7.6, 3.8.4, 3.9, 13.2.
#include "capi/checks.h"
#include "capi/continuations.h"
#include "capi/requests.h"

#include <algorithm>

#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

constexpr int kNone = MPI_UNDEFINED;

/// The requests of a call with an array of them, looked up once: handles may move in their table while other threads
/// are in, requests do not.
class Requests {
 public:
  Requests(Call& call, const MPI_Request* handles, Count count)
      : call_(call),
        handles_(handles),
        count_(count),
        attending_(call.world()),
        more_(count > kFew ? std::make_unique_for_overwrite<Request*[]>(size_t(count)) : nullptr),
        found_(more_ ? more_.get() : few_) {}

  /// Error: one that is neither null nor a request. Messages that wait for this call leave.
  Error find() {
    call_.process().progress().release_held();
    // Copies, for any store to found[i] might change the members, for all that the compiler knows.
    const Count count = count_;
    const MPI_Request* const handles = handles_;
    Request** const found = found_;
    for (Count i = 0; i < count; ++i) {
      Request* request = nullptr;
      if (handles[i] != MPI_REQUEST_NULL) [[likely]] {
        request = call_.find(handles[i]);
        if (!request) [[unlikely]]
          return no_request(i);
      }
      found[i] = request;
    }
    if (call_.checks()) [[unlikely]]
      tell_checks();
    if (attending_) [[unlikely]]
      attend();
    return {};
  }
  /// Until `done()`, which looks at these requests.
  template <typename Done>
  void wait_until(Done&& done) {
    if (attending_) [[unlikely]]
      attending_->wait_until(done);
    else call_.process().progress().wait_until(done);
  }
  /// Null when the handle is MPI_REQUEST_NULL.
  Request* operator[](Count i) const { return found_[i]; }
  Count size() const { return count_; }
  bool any_active() const { return std::any_of(found_, found_ + count_, is_active); }
  bool ready(Count i) const {
    Request* request = (*this)[i];
    return is_active(request) && request->complete();
  }
  /// The first from `i` on that is to be waited for (an inactive one counts as complete); size(): none.
  Count first_unsettled(Count i) const {
    while (i < count_ && (!found_[i] || found_[i]->complete())) ++i;
    return i;
  }
  Count first_ready() const {
    for (Count i = 0; i < count_; ++i) {
      if (ready(i)) return i;
    }
    return -1;
  }

 private:
  [[gnu::cold]] void tell_checks() const {
    for (Count i = 0; i < count_; ++i) {
      if (is_active(found_[i])) call_.checks()->completing(*found_[i]);
    }
  }
  [[gnu::cold]] void attend() {
    for (Count i = 0; i < count_; ++i) attending_.to(found_[i]);
  }
  [[gnu::cold]] Error no_request(Count i) const {
    return Error(ErrorClass::request, fmt::format("element {} of argument 'array_of_requests' ({:#x}) is "
                                                  "no request. Was it "
                                                  "completed or freed before, or never initialised?",
                                                  i, value_of(handles_[i])));
  }
  static constexpr Count kFew = 64;  // requests for which no memory is allocated
  Call& call_;
  const MPI_Request* handles_;
  Count count_;
  Continuations::Attending attending_;
  std::unique_ptr<Request*[]> more_;
  Request** found_;
  Request* few_[kFew];
};

MPI_Status* element(MPI_Status* statuses, Count i) { return statuses ? statuses + i : nullptr; }

void set_error(MPI_Status* status, int error_class) {
  if (status) status->MPI_ERROR = error_class;
}

/// The empty status of 3.7.3: unlike those of operations, it has its error field set.
void put_empty(MPI_Status* status) {
  put_status(status, kEmptyStatus);
  set_error(status, MPI_SUCCESS);
}

/// Asks a generalized request for its status, others have it. An access to a file may end with the user's conversions.
Error read_status(Request& request, MPI_Status* status) {
  if (request.kind() == Request::Kind::file) static_cast<io::FileRequest&>(request).settle();
  if (request.kind() != Request::Kind::generalized) {
    put_status(status, request.status);
    return {};
  }
  MPI_Status own{};
  put_status(&own, kEmptyStatus);
  int code = static_cast<GeneralizedRequest&>(request).query(own);
  if (status) {
    int before = status->MPI_ERROR;
    *status = own;
    status->MPI_ERROR = before;
  }
  if (code != MPI_SUCCESS) return Error(code, "the query function of the generalized request returned an error");
  return {};
}

/// Completes many: statuses, handles, and MPI_ERR_IN_STATUS when one failed (3.7.5).
/// `chosen(i)` says which; `place(i)` where its status goes.
class ManyCompleter {
 public:
  ManyCompleter(Call& call, MPI_Request* handles, MPI_Status* statuses)
      : call_(call), handles_(handles), statuses_(statuses) {}

  /// Completes request i, with its status at `place`.
  [[gnu::always_inline]] void complete(Count i, Count place) {
    Request* request = call_.take(&handles_[i]);  // none also where the same handle is in the array twice
    if (request && is_plain(*request) && !first_) [[likely]] {
      finish_plain(*request, element(statuses_, place));
    } else {
      complete_slowly(request, place);
    }
  }
  /// The first failure, to be raised; fills the error fields.
  Error result() {
    if (!first_) return {};
    call_.return_instead(MPI_ERR_IN_STATUS);
    return std::move(first_);
  }

 private:
  [[gnu::noinline]] void complete_slowly(Request* request, Count place) {
    MPI_Status* status = element(statuses_, place);
    if (!is_active(request)) {
      put_empty(status);
      note(place, {});
      return;
    }
    Error error = finish(call_, request, status);
    if (error || first_) note(place, std::move(error));
  }
  [[gnu::cold]] void note(Count place, Error error) {
    if (!first_ && !error) return;
    // From the first failure on (and backwards) the error fields are meaningful.
    if (!first_) {
      for (Count i = 0; i < place; ++i) set_error(element(statuses_, i), MPI_SUCCESS);
    }
    set_error(element(statuses_, place), error ? error.error_class() : MPI_SUCCESS);
    if (!first_) first_ = std::move(error);
  }
  Call& call_;
  MPI_Request* handles_;
  MPI_Status* statuses_;
  Error first_;
};

}  // namespace

namespace {

/// `blame` is told whose error handler an error is for: a communicator, or the last reference to it, a file or a
/// window.
template <typename Blame>
Error finish_and_blame(Request*& request, MPI_Status* status, Blame&& blame) {
  Error error = read_status(*request, status);
  if (request->error) error = std::move(request->error);
  request->error = Error();
  if (request->kind() == Request::Kind::file) {
    Ref<File> file = take_file(*request);
    if (error && file) blame(std::move(file));
    request->release();
    request = nullptr;
    return error;
  }
  if (request->kind() == Request::Kind::window) {
    Ref<Window> window = take_window(*request);
    if (error && window) blame(std::move(window));
    request->release();
    request = nullptr;
    return error;
  }
  auto comm = static_cast<Communicator*>(request->error_object);
  if (request->persistent()) {
    request->set_inactive();
    if (error && comm) blame(comm);
    return error;
  }
  request->error_object = nullptr;
  Ref<Communicator> last = Ref<Communicator>::adopt(comm);
  if (error && comm) blame(std::move(last));
  int free_error = MPI_SUCCESS;
  if (request->kind() == Request::Kind::generalized)
    static_cast<GeneralizedRequest*>(request)->free_error = &free_error;
  request->release();
  request = nullptr;
  if (free_error != MPI_SUCCESS && !error) {
    error = Error(free_error, "the free function of the generalized request returned an error");
  }
  return error;
}

}  // namespace

Error finish_slowly(Call& call, Request*& request, MPI_Status* status) {
  if (request->error && !request->error_object && request->kind() <= Request::Kind::receive) {
    // An engine's: it counts no reference to its communicator.
    if (Communicator* comm = call.world().comm_of(*request)) {
      comm->add_ref();
      request->error_object = comm;
    }
  }
  struct {
    void operator()(Communicator* comm) { call.blame(comm); }
    void operator()(Ref<Communicator> comm) { call.blame_last(std::move(comm)); }
    void operator()(Ref<File> file) { call.blame_last(std::move(file)); }
    void operator()(Ref<Window> window) { call.blame_last(std::move(window)); }
    Call& call;
  } blame{call};
  return finish_and_blame(request, status, blame);
}

Error finish_outside(Request& finished, MPI_Status* status, Ref<Communicator>& comm) {
  struct {
    void operator()(Communicator* of) { comm = Ref<Communicator>::share(of); }
    void operator()(Ref<Communicator> of) { comm = std::move(of); }
    void operator()(const Ref<File>&) {}
    void operator()(const Ref<Window>&) {}
    Ref<Communicator>& comm;
  } blame{comm};
  Request* request = &finished;
  return finish_and_blame(request, status, blame);
}

namespace body {

/// Where threads share the rank, or continuations run meanwhile, another one may complete the request while this one
/// waits, which MPI forbids (5.0, 11.6.2): the request is gone then, and is not touched.
[[gnu::noinline]] static Error wait_among_threads(Call& call, Request& request) {
  const auto handle = uintptr_t(request.handle);
  bool there = true;
  auto over = [&] {
    there = call.world().find_request(handle) == &request;
    return !there || request.complete();
  };
  if (Continuations::Attending attending(call.world()); attending) {
    attending.to(&request);
    attending->wait_until(over);
  } else {
    call.process().progress().wait_until(over);
  }
  if (there) return {};
  return Error(ErrorClass::request, fmt::format("argument 'request' ({:#x}) was completed by another thread while this "
                                                "one waited. Let one thread wait for each request.",
                                                handle));
}

Error Wait(Call& call, Request*& request, MPI_Status* status) {
  if (!is_active(request)) {
    put_empty(status);
    return {};
  }
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->completing(*request);
  if (request->complete()) {
    call.process().progress().release_held();
  } else if (!call.world().threads && !call.world().continuations) {
    call.process().p2p().wait(*request);
  } else if (Error error = wait_among_threads(call, *request)) {
    return error;
  }
  return finish(call, request, status);
}

Error Test(Call& call, Request*& request, bool& flag, MPI_Status* status) {
  if (!is_active(request)) {
    flag = true;
    put_empty(status);
    return {};
  }
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->completing(*request);
  if (request->complete()) {
    call.process().progress().release_held();
  } else {
    Continuations::Attending attending(call.world());
    if (attending) [[unlikely]]
      attending.to(request);
    call.process().progress().look();
  }
  flag = request->complete();
  return flag ? finish(call, request, status) : Error();
}

Error Waitall(Call& call, Count count, MPI_Request* array_of_requests, MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  Count done = 0;
  auto all = [&] { return (done = requests.first_unsettled(done)) == count; };
  if (!all()) requests.wait_until(all);
  ManyCompleter completer(call, array_of_requests, array_of_statuses);
  for (Count i = 0; i < count; ++i) completer.complete(i, i);
  return completer.result();
}

Error Testall(Call& call, Count count, MPI_Request* array_of_requests, bool& flag, MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  auto all = [&] { return requests.first_unsettled(0) == count; };
  flag = all();
  if (!flag) {
    call.process().progress().look();
    flag = all();
  }
  if (!flag) return {};
  ManyCompleter completer(call, array_of_requests, array_of_statuses);
  for (Count i = 0; i < count; ++i) completer.complete(i, i);
  return completer.result();
}

/// Looks once for one that is ready, for those that do not wait. True: it is `index`; false: there is nothing to report
/// but `flag` (true, with the empty status: none is active).
static bool look_for_one(Call& call, const Requests& requests, int& index, bool& flag, MPI_Status* status) {
  index = kNone;
  flag = true;
  if (!requests.any_active()) {
    put_empty(status);
    return false;
  }
  Count first = requests.first_ready();
  if (first < 0) {
    call.process().progress().look();
    first = requests.first_ready();
  }
  flag = first >= 0;
  if (flag) index = static_cast<int>(first);
  return flag;
}

static Error complete_one(Call& call, MPI_Request& handle, MPI_Status* status) {
  Request* request = call.take(&handle);
  return finish(call, request, status);
}

Error Waitany(Call& call, Count count, MPI_Request* array_of_requests, int& index, MPI_Status* status) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  if (!requests.any_active()) {
    index = kNone;
    put_empty(status);
    return {};
  }
  Count first = requests.first_ready();
  if (first < 0) requests.wait_until([&] { return (first = requests.first_ready()) >= 0; });
  index = static_cast<int>(first);
  return complete_one(call, array_of_requests[first], status);
}

Error Testany(Call& call, Count count, MPI_Request* array_of_requests, int& index, bool& flag, MPI_Status* status) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  if (!look_for_one(call, requests, index, flag, status)) return {};
  return complete_one(call, array_of_requests[index], status);
}

static Error complete_some(Call& call, const Requests& requests, MPI_Request* handles, int& outcount, int* indices,
                           MPI_Status* statuses) {
  outcount = 0;
  for (Count i = 0; i < requests.size(); ++i) {
    if (requests.ready(i)) indices[outcount++] = static_cast<int>(i);
  }
  ManyCompleter completer(call, handles, statuses);
  for (int i = 0; i < outcount; ++i) completer.complete(indices[i], i);
  return completer.result();
}

Error Waitsome(Call& call, Count incount, MPI_Request* array_of_requests, int& outcount, int* array_of_indices,
               MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, incount);
  if (Error error = requests.find()) return error;
  if (!requests.any_active()) {
    outcount = kNone;
    return {};
  }
  if (requests.first_ready() < 0) {
    requests.wait_until([&] { return requests.first_ready() >= 0; });
  }
  return complete_some(call, requests, array_of_requests, outcount, array_of_indices, array_of_statuses);
}

Error Testsome(Call& call, Count incount, MPI_Request* array_of_requests, int& outcount, int* array_of_indices,
               MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, incount);
  if (Error error = requests.find()) return error;
  if (!requests.any_active()) {
    outcount = kNone;
    return {};
  }
  if (requests.first_ready() < 0) call.process().progress().look();
  return complete_some(call, requests, array_of_requests, outcount, array_of_indices, array_of_statuses);
}

// --- Looking without completing (3.7.6, 3.7.7 of the request-status functions).

static Error peek(Request* request, MPI_Status* status) {
  if (is_active(request)) return read_status(*request, status);
  put_empty(status);
  return {};
}

Error Request_get_status(Call& call, Request* request, bool& flag, MPI_Status* status) {
  if (is_active(request) && !request->complete()) call.process().progress().look();
  flag = !is_active(request) || request->complete();
  return flag ? peek(request, status) : Error();
}

Error Request_get_status_any(Call& call, Count count, const MPI_Request* array_of_requests, int& index, bool& flag,
                             MPI_Status* status) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  if (!look_for_one(call, requests, index, flag, status)) return {};
  return peek(requests[index], status);
}

Error Request_get_status_all(Call& call, Count count, const MPI_Request* array_of_requests, bool& flag,
                             MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, count);
  if (Error error = requests.find()) return error;
  if (requests.any_active()) call.process().progress().look();
  flag = requests.first_unsettled(0) == count;
  if (!flag) return {};
  for (Count i = 0; i < count; ++i) {
    if (Error error = peek(requests[i], element(array_of_statuses, i))) return error;
  }
  return {};
}

Error Request_get_status_some(Call& call, Count incount, const MPI_Request* array_of_requests, int& outcount,
                              int* array_of_indices, MPI_Status* array_of_statuses) {
  Requests requests(call, array_of_requests, incount);
  if (Error error = requests.find()) return error;
  if (!requests.any_active()) {
    outcount = kNone;
    return {};
  }
  call.process().progress().look();
  outcount = 0;
  for (Count i = 0; i < incount; ++i) {
    if (!requests.ready(i)) continue;
    if (Error error = peek(requests[i], element(array_of_statuses, outcount))) return error;
    array_of_indices[outcount++] = static_cast<int>(i);
  }
  return {};
}

}  // namespace body
}  // namespace tern::capi
