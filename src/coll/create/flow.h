// Flow: a protocol among a few ranks, written as straight code and run as a state machine. Making a
// communicator takes a handful of small messages in a fixed order; as a coroutine it reads like a blocking
// program and yet MPI_Comm_idup returns at once.
//
//   Flow agree(Channel channel, ...) {
//     if (Error error = co_await channel.receive(0, words)) co_return error;   // suspends until the message is here
//     co_return co_await channel.broadcast(0, words);                           // a Flow awaits another
//   }
//
// A FlowRequest runs a Flow under the progress engine and is a Request that can be waited for. A Flow starts when
// awaited (or run), never before. An exception (no memory) goes to the awaiting flow, in the end to the call that
// resumes it, and the request has an error. Its frame holds what it needs: parameters by value, or references that
// outlive the operation. Thread rule: under the rank's lock.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "base/error.h"
#include "p2p/point_to_point.h"
#include "p2p/request.h"
#include "progress/engine.h"

namespace tern::create {

class FlowRequest;

class [[nodiscard]] Flow {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type {
    Error result;
    std::exception_ptr failure;      ///< instead of a result: no memory
    std::coroutine_handle<> parent;  ///< null: the outermost
    FlowRequest* runner = nullptr;

    Flow get_return_object() { return Flow(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle handle) noexcept {
        auto next = handle.promise().parent;
        return next ? next : std::coroutine_handle<>(std::noop_coroutine());
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(Error error) { result = std::move(error); }
    void unhandled_exception() noexcept { failure = std::current_exception(); }
    /// Of a flow that has ended.
    Error outcome() {
      if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
      return std::move(result);
    }
  };

  Flow(Flow&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (handle_) handle_.destroy();
  }

  // Awaiting a Flow runs it within the same runner and gives its result.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(Handle awaiting) noexcept {
    handle_.promise().parent = awaiting;
    handle_.promise().runner = awaiting.promise().runner;
    return handle_;
  }
  Error await_resume() { return handle_.promise().outcome(); }

 private:
  friend class FlowRequest;
  explicit Flow(Handle handle) : handle_(handle) {}
  Handle handle_;
};

/// A running Flow. Deletes itself on release, as other requests.
class FlowRequest final : public Request, private Advanceable {
 public:
  /// Runs the flow to its first wait. The request may be complete on return.
  static FlowRequest* begin(ProgressEngine& engine, Flow flow);

 protected:
  void destroy() override { delete this; }

 private:
  friend struct Completion;
  FlowRequest(ProgressEngine& engine, Flow flow) : Request(Kind::collective), engine_(engine), flow_(std::move(flow)) {
    flow_.handle_.promise().runner = this;
  }
  ~FlowRequest() override = default;
  int advance() override;
  void finish();

  ProgressEngine& engine_;
  Flow flow_;
  Request* awaited_ = nullptr;         ///< what the innermost coroutine waits for; null: nothing
  std::coroutine_handle<> suspended_;  ///< that coroutine
};

/// Awaits a request: `Error error = co_await Completion(request);` The request is released, its error
/// returned.
struct Completion {
  explicit Completion(Request* awaited) : request(awaited) {}
  bool await_ready() const noexcept { return request->complete(); }
  void await_suspend(Flow::Handle handle) noexcept {
    FlowRequest* runner = handle.promise().runner;
    runner->awaited_ = request;
    runner->suspended_ = handle;
  }
  Error await_resume() {
    Error error = std::move(request->error);
    request->release();
    return error;
  }
  Request* request;
};

/// Runs a flow and waits for it.
Error run(PointToPoint& p2p, Flow flow);

}  // namespace tern::create
