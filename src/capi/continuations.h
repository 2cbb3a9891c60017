// Continuations: callbacks of the program for operations that complete, so that task runtimes need not test arrays of
// requests. A continuation belongs to operations, which it takes over, and is registered with a continuation request.
// That one completes when all registered continuations have run; while it is active they may run.
// Source: the working document of the MPI Forum's Hybrid & Accelerator working group; Schuchart et al. 2021
// ("Callback-based completion notification using MPI Continuations", Parallel Computing 106).
//
//   attach ──> waits for operations ──> ready (all complete) ──> runs (a thread is in a call that polls) ──> over
//
// A callback runs on a thread of the program, between polls, with the rank's lock given up: it may take locks of the
// program's own, and call MPI. None runs inside of another on the same thread.
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/intrusive_list.h"
#include "capi/call.h"
#include "mpix.h"
#include "p2p/request.h"
#include "progress/between_polls.h"

namespace tern::capi {

class Continuations;
class ContinuationRequest;

struct Continuation : ListHook<Continuation> {
  /// What is kept of an operation until it completes.
  struct Operation {
    Continuation* continuation;
    Request* request;                    ///< null: there was none
    void (*before)(Request&) = nullptr;  ///< who watched it before (TERN_CHECK)
    void* watcher = nullptr;             ///< of that
  };
  ContinuationRequest& owner;
  MPIX_Continue_cb_function* function;
  void* data;
  bool invoke_failed;
  MPI_Status* statuses;  ///< the program's, one for each operation; null: not wanted
  std::vector<Operation> operations = {};
  size_t left = 0;  ///< operations that are not complete
};

/// What MPIX_Continue_init makes: persistent.
class ContinuationRequest final : public Request {
 public:
  /// `max_poll`: how many continuations one call runs at most; 0: no limit.
  ContinuationRequest(Continuations& all, bool poll_only, int max_poll);

  Error start() override;
  /// One more has been registered.
  void add();
  /// All its operations are complete.
  void make_ready(Continuation& continuation);
  /// A continuation has run, or its operations have failed (`error`, with the communicator that it is of). This may be
  /// the end of the request.
  void over(void* data, Error error, Ref<Communicator> comm);
  /// Takes up to `most` of the data of failed ones.
  int take_failed(void** data, int most);

  int pending() const { return pending_; }
  bool poll_only() const { return poll_only_; }
  size_t ready() const { return ready_count_; }
  size_t most_at_once() const { return max_poll_ == 0 ? ready_count_ : std::min(ready_count_, size_t(max_poll_)); }
  Continuation* take_ready();

 private:
  void destroy() override;
  ~ContinuationRequest() = default;

  Continuations& all_;
  const bool poll_only_;
  const int max_poll_;
  int pending_ = 0;  ///< registered and not over
  size_t ready_count_ = 0;
  IntrusiveList<Continuation> ready_;
  std::vector<void*> failed_;
  bool freed_ = false;  ///< by the program; it goes with its last continuation
};

/// Those of one rank.
class Continuations final : public BetweenPolls {
 public:
  explicit Continuations(World& world) : world_(world) {}
  Continuations(const Continuations&) = delete;
  Continuations& operator=(const Continuations&) = delete;

  void add(ContinuationRequest& owner) { owners_.push_back(&owner); }
  void remove(ContinuationRequest& owner);
  /// Tells the engine whether there is something to run. After every change of that.
  void update();
  ProgressEngine& engine() { return world_.process->progress(); }

  /// Takes the operations over: their handles become null, but those of persistent ones.
  Error attach(Call& call, ContinuationRequest& owner, Continuation* continuation, int count, MPI_Request* handles,
               bool now);

  bool run() override;
  /// As ProgressEngine::wait_until, for a call that waits for requests: what it attends to is run by this thread.
  template <typename Done>
  void wait_until(Done&& done) {
    const std::thread::id me = std::this_thread::get_id();
    const bool runs = may_run(me);
    while (!done()) {
      if (run()) continue;
      engine().wait_until([&] { return done() || (runs && next(me)); });
    }
  }

  /// A thread tests, or waits for, requests: those with MPIX_CONT_POLL_ONLY run their continuations then.
  class Attending {
   public:
    explicit Attending(World& world) : all_(world.continuations.get()) {}
    ~Attending() {
      if (many_ != 0) [[unlikely]]
        all_->attend_no_more(many_);
    }
    Attending(const Attending&) = delete;
    Attending& operator=(const Attending&) = delete;
    /// Whether the rank has continuations at all.
    explicit operator bool() const { return all_ != nullptr; }
    Continuations* operator->() const { return all_; }
    void to(Request* request) {
      if (request && request->kind() == Request::Kind::continuation) many_ += all_->attend(*request);
    }

   private:
    Continuations* all_;
    int many_ = 0;
  };

 private:
  int attend(Request& request);
  void attend_no_more(int many);
  bool running(std::thread::id thread) const;
  bool may_run(std::thread::id thread) const;
  bool runs_for(const ContinuationRequest& owner, std::thread::id thread) const;
  /// A request with something that the thread may run; null: none.
  ContinuationRequest* next(std::thread::id thread) const;
  void carry_out(Continuation& continuation);
  static void on_operation(Request& request);

  World& world_;
  std::vector<ContinuationRequest*> owners_;
  std::vector<std::thread::id> runners_;  ///< threads in callbacks
  std::vector<std::pair<std::thread::id, ContinuationRequest*>> attended_;
};

}  // namespace tern::capi
