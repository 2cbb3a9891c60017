#include "capi/continuations.h"

#include <algorithm>

#include "capi/checks.h"
#include "capi/requests.h"
#include "capi/tool_events.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

// --- The continuation request

ContinuationRequest::ContinuationRequest(Continuations& all, bool poll_only, int max_poll)
    : Request(Kind::continuation), all_(all), poll_only_(poll_only), max_poll_(max_poll) {
  make_persistent();
  all_.add(*this);
}

Error ContinuationRequest::start() {
  forget_communicator(*this);
  restart();
  if (pending_ == 0) complete_ = true;
  all_.update();
  return {};
}

void ContinuationRequest::add() {
  ++pending_;
  // It was complete since there were none; one that has failed stays complete until that is told.
  if (active() && !error) complete_ = false;
}

void ContinuationRequest::make_ready(Continuation& continuation) {
  ready_.push_back(&continuation);
  ++ready_count_;
  all_.update();
  all_.engine().notify();
}

Continuation* ContinuationRequest::take_ready() {
  TERN_ASSERT(ready_count_ != 0);
  --ready_count_;
  return ready_.pop_front();
}

void ContinuationRequest::over(void* data, Error failed, Ref<Communicator> comm) {
  TERN_ASSERT(pending_ > 0 && active());
  --pending_;
  if (failed && !freed_) {
    failed_.push_back(data);
    if (!error) {
      error = std::move(failed);
      forget_communicator(*this);
      if (comm) error_object = Ref<Communicator>(comm).release();
    }
  }
  all_.engine().notify();
  if (freed_ && complete()) {
    if (pending_ == 0) destroy();
  } else if (!complete() && (pending_ == 0 || error)) {
    set_complete();  // and destroy, if it is freed
  }
}

int ContinuationRequest::take_failed(void** data, int most) {
  const auto taken = std::min(failed_.size(), size_t(most));
  std::copy_n(failed_.begin(), taken, data);
  failed_.erase(failed_.begin(), failed_.begin() + std::ptrdiff_t(taken));
  return int(taken);
}

// Those that are registered still run.
void ContinuationRequest::destroy() {
  freed_ = true;
  if (pending_ != 0) return;
  forget_communicator(*this);
  all_.remove(*this);
  delete this;
}

// --- Which one runs

void Continuations::remove(ContinuationRequest& owner) {
  std::erase(owners_, &owner);
  for (auto& [thread, attended] : attended_) {
    if (attended == &owner) attended = nullptr;
  }
  update();
}

void Continuations::update() {
  bool some = false;
  for (const ContinuationRequest* owner : owners_) {
    some |= owner->ready() != 0 && owner->active() &&
            (!owner->poll_only() || std::any_of(attended_.begin(), attended_.end(),
                                                [&](const auto& attends) { return attends.second == owner; }));
  }
  engine().set_between_polls(some ? this : nullptr);
}

int Continuations::attend(Request& request) {
  attended_.emplace_back(std::this_thread::get_id(), static_cast<ContinuationRequest*>(&request));
  update();
  return 1;
}

// The last ones of this thread: calls of one thread end in the reverse order of their beginning.
void Continuations::attend_no_more(int many) {
  const std::thread::id me = std::this_thread::get_id();
  for (size_t i = attended_.size(); i-- > 0 && many > 0;) {
    if (attended_[i].first != me) continue;
    attended_.erase(attended_.begin() + std::ptrdiff_t(i));
    --many;
  }
  TERN_ASSERT(many == 0);
  update();
}

bool Continuations::running(std::thread::id thread) const {
  return std::find(runners_.begin(), runners_.end(), thread) != runners_.end();
}

bool Continuations::may_run(std::thread::id thread) const { return !running(thread) && !on_event_thread(world_); }

bool Continuations::runs_for(const ContinuationRequest& owner, std::thread::id thread) const {
  if (owner.ready() == 0 || !owner.active()) return false;
  return !owner.poll_only() || std::any_of(attended_.begin(), attended_.end(), [&](const auto& attends) {
    return attends.first == thread && attends.second == &owner;
  });
}

ContinuationRequest* Continuations::next(std::thread::id thread) const {
  const auto found = std::find_if(owners_.begin(), owners_.end(),
                                  [&](const ContinuationRequest* owner) { return runs_for(*owner, thread); });
  return found == owners_.end() ? nullptr : *found;
}

// --- Running

// What callbacks make ready waits for the next time, so that a chain of them does not keep this call. Callbacks, and
// other threads while the lock is given up, may change everything here.
bool Continuations::run() {
  const std::thread::id me = std::this_thread::get_id();
  if (!may_run(me)) return false;
  struct Runner {
    Runner(std::vector<std::thread::id>& list, std::thread::id self) : runners(list), me(self) { list.push_back(me); }
    ~Runner() { runners.erase(std::find(runners.begin(), runners.end(), me)); }
    std::vector<std::thread::id>& runners;
    const std::thread::id me;
  } const runner(runners_, me);
  bool any = false;
  for (size_t i = 0; i < owners_.size(); ++i) {
    ContinuationRequest* const owner = owners_[i];
    for (size_t left = owner->most_at_once(); left != 0 && runs_for(*owner, me); --left) {
      carry_out(*owner->take_ready());
      any = true;
      if (i >= owners_.size() || owners_[i] != owner) break;  // it has ended, or others before it
    }
  }
  update();
  return any;
}

void Continuations::carry_out(Continuation& continuation) {
  const std::unique_ptr<Continuation> owned(&continuation);
  Error error;
  Ref<Communicator> comm;
  for (size_t i = 0; i < continuation.operations.size(); ++i) {
    Request* request = continuation.operations[i].request;
    if (!request) continue;
    request->continued = false;
    if (!is_active(request)) continue;  // the program has waited for it, too
    if (world_.checks) world_.checks->taken(*request);
    MPI_Status* status = continuation.statuses ? continuation.statuses + i : nullptr;
    Ref<Communicator> its;
    Error failed = finish_outside(*request, status, its);
    if (status) status->MPI_ERROR = failed ? failed.error_class() : MPI_SUCCESS;
    if (!failed || error) continue;
    error = std::move(failed);
    comm = std::move(its);
  }
  if (!error || continuation.invoke_failed) {
    const int code = error ? error.error_class() : MPI_SUCCESS;
    error = Error();
    struct Outside {  // callbacks may throw
      explicit Outside(World& of) : world(of), name(of.call_name), depth(of.lock->give_way()) {}
      ~Outside() {
        world.lock->come_back(depth);
        world.call_name = name;
      }
      World& world;
      const char* const name;
      const uint32_t depth;
    };
    int returned;
    {
      const Outside outside(world_);
      returned = continuation.function(code, continuation.data);
    }
    if (returned != MPI_SUCCESS) error = Error(returned, "the callback of a continuation has returned an error");
  }
  continuation.owner.over(continuation.data, std::move(error), std::move(comm));
}

// --- Operations

void Continuations::on_operation(Request& request) {
  auto& operation = *static_cast<Continuation::Operation*>(request.watcher);
  request.on_complete = operation.before;
  request.watcher = operation.watcher;
  if (request.on_complete) request.on_complete(request);
  Continuation& continuation = *operation.continuation;
  if (--continuation.left == 0) continuation.owner.make_ready(continuation);
}

static Error check_operations(Call& call, ContinuationRequest& owner, int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const Request* request = call.find(handles[i]);
    const char* wrong = nullptr;
    if (!request) wrong = "is no request. Was it completed or freed before, or never initialised?";
    else if (request == &owner) wrong = "is the continuation request itself, which would wait for its own end";
    else if (request->continued) wrong = "has a continuation that has not run";
    else if (std::find(handles, handles + i, handles[i]) != handles + i) wrong = "is in the array twice";
    call.keep_from_short_calls(handles[i]);
    if (wrong) return Error(ErrorClass::request, fmt::format("request {} ({:#x}) {}", i, value_of(handles[i]), wrong));
  }
  return {};
}

Error Continuations::attach(Call& call, ContinuationRequest& owner, Continuation* continuation, int count,
                            MPI_Request* handles, bool now) {
  std::unique_ptr<Continuation> made(continuation);
  if (Error wrong = check_operations(call, owner, count, handles)) return wrong;
  made->operations.reserve(size_t(count));
  owner.add();
  made->left = 1;  // this call
  for (int i = 0; i < count; ++i) {
    Request* request = handles[i] == MPI_REQUEST_NULL ? nullptr : call.take(&handles[i]);
    if (!is_active(request)) {
      put_status(made->statuses ? made->statuses + i : nullptr, kEmptyStatus);
      if (made->statuses) made->statuses[i].MPI_ERROR = MPI_SUCCESS;
      request = nullptr;
    }
    made->operations.push_back({made.get(), request});
    if (!request) continue;
    request->continued = true;
    if (request->complete()) continue;
    Continuation::Operation& operation = made->operations.back();
    operation.before = request->on_complete;
    operation.watcher = request->watcher;
    request->on_complete = on_operation;
    request->watcher = &operation;
    ++made->left;
  }
  Continuation& registered = *made.release();
  if (--registered.left == 0) {
    owner.make_ready(registered);
    if (now && owner.active() && !owner.poll_only()) run();
  } else {
    engine().release_held();
  }
  return {};
}

namespace {

constexpr int kAttachFlags =
    MPIX_CONT_REQBUF_VOLATILE | MPIX_CONT_REQUESTS_FREE | MPIX_CONT_DEFER_COMPLETE | MPIX_CONT_INVOKE_FAILED;

Error wrong_flags(int flags, const char* allowed) {
  return Error(ErrorClass::arg, fmt::format("argument 'flags' is {:#x}. Allowed are {}", flags, allowed));
}

Error find_owner(Request& request, ContinuationRequest*& owner) {
  if (request.kind() != Request::Kind::continuation)
    return Error(ErrorClass::request, "argument 'cont_req' was not made by MPIX_Continue_init");
  owner = static_cast<ContinuationRequest*>(&request);
  return {};
}

Error attach(Call& call, int count, MPI_Request* handles, MPIX_Continue_cb_function* function, void* data, int flags,
             MPI_Status* statuses, Request& cont_req) {
  ContinuationRequest* owner = nullptr;
  if (Error wrong = find_owner(cont_req, owner)) return wrong;
  if (!function) return Error(ErrorClass::arg, "argument 'cb' is a null pointer. Pass a function.");
  if (flags & ~kAttachFlags) {
    return wrong_flags(flags,
                       "MPIX_CONT_REQBUF_VOLATILE, MPIX_CONT_REQUESTS_FREE, MPIX_CONT_DEFER_COMPLETE and "
                       "MPIX_CONT_INVOKE_FAILED");
  }
  if (count < 0) return Error(ErrorClass::count, fmt::format("argument 'count' is {}. It cannot be negative.", count));
  return call.world().continuations->attach(
      call, *owner, new Continuation{{}, *owner, function, data, (flags & MPIX_CONT_INVOKE_FAILED) != 0, statuses},
      count, handles, !(flags & MPIX_CONT_DEFER_COMPLETE));
}

}  // namespace

namespace body {

Error Continue_init(Call& call, int flags, int max_poll, Info* info, Request*& cont_req) {
  if (flags & ~MPIX_CONT_POLL_ONLY) return wrong_flags(flags, "0 and MPIX_CONT_POLL_ONLY");
  if (max_poll < 0 && max_poll != MPI_UNDEFINED) {
    return Error(ErrorClass::arg,
                 fmt::format("argument 'max_poll' is {}. Pass how many continuations one call may run, "
                             "or 0 for no limit.",
                             max_poll));
  }
  World& world = call.world();
  if (!world.continuations) world.continuations = std::make_unique<Continuations>(world);
  cont_req = new ContinuationRequest(*world.continuations, (flags & MPIX_CONT_POLL_ONLY) != 0, std::max(max_poll, 0));
  return {};
}

Error Continue(Call& call, MPI_Request* op_request, MPIX_Continue_cb_function* cb, void* cb_data, int flags,
               MPI_Status* status, Request& cont_req) {
  if (!op_request)
    return Error(ErrorClass::arg, "argument 'op_request' is a null pointer. Pass the address of a variable.");
  return attach(call, 1, op_request, cb, cb_data, flags, status, cont_req);
}

Error Continueall(Call& call, int count, MPI_Request* array_of_op_requests, MPIX_Continue_cb_function* cb,
                  void* cb_data, int flags, MPI_Status* array_of_statuses, Request& cont_req) {
  return attach(call, count, array_of_op_requests, cb, cb_data, flags, array_of_statuses, cont_req);
}

Error Continue_get_failed(Call& call, Request& cont_req, int* count, void** cb_data) {
  ContinuationRequest* owner = nullptr;
  if (Error wrong = find_owner(cont_req, owner)) return wrong;
  if (!count || *count < 0 || (*count > 0 && !cb_data))
    return Error(ErrorClass::arg, "argument 'count' must point to the number of elements of 'cb_data', an array");
  *count = owner->take_failed(cb_data, *count);
  return {};
}

}  // namespace body
}  // namespace tern::capi
