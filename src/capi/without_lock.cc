#include "capi/without_lock.h"

#include <sched.h>

#include <algorithm>

#include "base/assert.h"
#include "base/looks.h"
#include "base/thread_number.h"
#include "capi/call.h"
#include "capi/requests.h"
#include "p2p/core/endpoint.h"
#include "rma/window.h"

namespace tern::capi::short_calls {

namespace {

/// Inside of an engine's gate; false: it is closed.
class Inside {
 public:
  Inside(World& world, Engine& engine)
      : world_(world), engine_(engine), inside_(engine.gate.enter(std::this_thread::get_id())) {}
  ~Inside() {
    if (!inside_) return;
    engine_.count_call();
    const bool more = engine_.leaves_work();
    engine_.gate.leave();
    if (more) [[unlikely]]
      tell_rank();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  // Who leaves the library lets somebody poll for what is left to do.
  void tell_rank() {
    world_.lock->acquire();
    engine_.left.note_told();
    world_.lock->leave();
  }

  World& world_;
  Engine& engine_;
  const bool inside_;
};

PeerId sender_of(const Request& request) { return request.from ? request.from->peer : kNoPeer; }

/// Calls that need nothing else of the rank look after the rest of it now and then: they may be many in a loop that
/// waits for another rank.
void look_after_rest(World& world) {
  world.lock->acquire();
  world.process->progress().look();
  world.lock->leave();
}

/// How long a short call looks for what is not there yet.
struct Patience {
  uint32_t looks;       ///< each time that it is inside, at memory
  uint32_t yields = 0;  ///< of the core, for another thread or rank that waits for it; then it is inside again

  /// A look that asks the kernel takes as long as many at memory.
  uint32_t looks_for(const Engine& engine, PeerId from) const { return engine.asks_kernel(from) ? 1 : looks; }
};

/// Inside of the engine: `attempt()` at once, and after each arrival of messages from other ranks. `sender()`: from
/// which one; kNoPeer: from any. It is known once an attempt has said that something is not there yet.
template <typename Attempt, typename Sender>
Shortly look_inside(Engine& engine, const Patience& patience, Attempt&& attempt, Sender&& sender) {
  Shortly end = attempt();
  if (end != Shortly::not_yet || !engine.comes_by_itself(sender())) return end;
  for (uint32_t looks = patience.looks_for(engine, sender()); end == Shortly::not_yet && looks != 0; --looks) {
    const int came = engine.poll_shortly(sender());
    if (came < 0) return Shortly::never;
    if (came != 0) end = attempt();
    else short_pause();
  }
  return end;
}

Patience patience_of_waiting(const World& world) {
  const uint32_t looks = world.process->is_oversubscribed() ? 1 : limits_of(Look::message).looks;
  return {looks, limits_of(Look::yielding_call).looks};
}

/// As look_inside, for a short while.
template <typename Attempt, typename Sender>
bool await_shortly(World& world, Engine& engine, Patience patience, Attempt&& attempt, Sender&& sender) {
  bool due = false;
  Shortly end = Shortly::not_yet;
  for (uint32_t tries = 0; end == Shortly::not_yet && tries <= patience.yields; ++tries) {
    if (tries != 0) sched_yield();
    const Inside inside(world, engine);
    if (!inside) return false;
    if (tries == 0) due = engine.count_look() % limits_of(Look::short_call).looks == 0;
    end = look_inside(engine, patience, attempt, sender);
    if (end == Shortly::done) engine.release_held();
    if (end == Shortly::not_yet && !engine.comes_by_itself(sender())) break;
  }
  if (due) [[unlikely]]
    look_after_rest(world);
  return end == Shortly::done;
}

/// A datatype of short calls: a predefined one, which nobody counts and nobody frees. Null: it is none.
Datatype* find_predefined(World& world, MPI_Datatype handle) {
  const uintptr_t value = value_of(handle);
  if (value - world.handles.types.kFirstPredefined > 0xff) return nullptr;
  Datatype* type = world.handles.types.find_unlocked(value);
  return type && type->is_predefined() ? type : nullptr;
}

/// What the handles of a message name, if that is for short calls: a communicator with an engine, and a datatype.
struct Named {
  Communicator* comm = nullptr;
  const Datatype* type = nullptr;

  Named(World& world, MPI_Comm comm_handle, MPI_Datatype type_handle) {
    if (world.observed) return;
    Communicator* found = world.handles.comms.find_unlocked(value_of(comm_handle));
    if (!found || !found->has_engine()) return;
    type = find_predefined(world, type_handle);
    if (type) comm = found;
  }
  explicit operator bool() const { return comm != nullptr; }
};

bool is_memory(const void* buffer) { return value_of(buffer) > 2; }

bool is_rank(int rank, const Communicator& comm) { return unsigned(rank) < unsigned(comm.peer_group().size()); }

bool is_message_to(const void* buffer, Count count, int dest, int tag, const Communicator& comm) {
  return count >= 0 && tag >= 0 && is_memory(buffer) && is_rank(dest, comm);
}
bool is_message_from(const void* buffer, Count count, int source, int tag, const Communicator& comm) {
  return count >= 0 && (tag >= 0 || (tag == kAnyTag && !comm.is_spread_by_tag())) && is_memory(buffer) &&
         (source == kAnySource || is_rank(source, comm));
}

/// Whether a request is over. `never`: its end is not this call's affair alone.
Shortly end_of(const Request& request) {
  const bool plain = is_plain(request) && !request.on_complete && !request.error_object && !request.continued;
  if (!plain) return Shortly::never;
  return request.complete() ? Shortly::done : Shortly::not_yet;
}

void end(Handles::EngineRequests& requests, MPI_Request& handle, Request* request, MPI_Status* status) {
  if (requests.find_user(value_of(handle)) == request) [[likely]] {
    put_status(status, request->status);
    requests.retire(value_of(handle));
    request->release();
  } else {  // the same one twice
    put_status(status, kEmptyStatus);
    if (status) status->MPI_ERROR = MPI_SUCCESS;
  }
  handle = MPI_REQUEST_NULL;
}

/// All of these requests, if they are of one engine and can end within its patience.
bool end_all(World& world, int count, MPI_Request* handles, MPI_Status* statuses, Patience patience) {
  constexpr int kFew = 64;  // as Requests::kFew, for which no memory is allocated
  if (world.observed || count <= 0 || count > kFew || !handles) return false;
  Engine* engine = world.engine_of(handles[0]);
  if (!engine) return false;
  Handles::EngineRequests& requests = world.requests_of(*engine);
  Request* found[kFew];
  int over = -1;  // the first `over` of them are over; -1: they have not been found yet
  const auto attempt = [&] {
    for (int i = 0; over < 0 && i < count; ++i) {
      found[i] = requests.find_user(value_of(handles[i]));
      if (!found[i] || end_of(*found[i]) == Shortly::never) return Shortly::never;
    }
    over = std::max(over, 0);
    while (over < count && end_of(*found[over]) == Shortly::done) ++over;
    if (over != count) return end_of(*found[over]);
    for (int i = 0; i < count; ++i) end(requests, handles[i], found[i], statuses ? statuses + i : nullptr);
    return Shortly::done;
  };
  return await_shortly(world, *engine, patience, attempt, [&] {
    TERN_DEBUG_ASSERT(over >= 0 && over < count);
    return sender_of(*found[over]);
  });
}

}  // namespace

bool Send(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  const Named named(world, comm, datatype);
  if (!named || !is_message_to(buf, count, dest, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine(tag);
  const Inside inside(world, engine);
  return inside && engine.p2p.send_shortly(named.comm->send_arguments(buf, count, *named.type, dest, tag));
}

bool Recv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Status* status) {
  const Named named(world, comm, datatype);
  if (!named || !is_message_from(buf, count, source, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine(tag);
  const ReceiveArguments arguments = named.comm->receive_arguments(buf, count, *named.type, source, tag);
  Status result;
  const auto attempt = [&] { return engine.p2p.receive_shortly(arguments, result); };
  if (!await_shortly(world, engine, patience_of_waiting(world), attempt, [&] { return arguments.peer; })) return false;
  put_status(status, result);
  return true;
}

bool Isend(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
           MPI_Request* request) {
  const Named named(world, comm, datatype);
  if (!named || !request || !is_message_to(buf, count, dest, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine(tag);
  SendArguments arguments = named.comm->send_arguments(buf, count, *named.type, dest, tag);
  arguments.requested = true;
  const Inside inside(world, engine);
  Request* made = inside ? engine.p2p.isend_shortly(arguments) : nullptr;
  if (made) *request = reinterpret_cast<MPI_Request>(world.requests_of(engine).give(made));
  return made != nullptr;
}

bool Irecv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
           MPI_Request* request) {
  const Named named(world, comm, datatype);
  if (!named || !request || !is_message_from(buf, count, source, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine(tag);
  const ReceiveArguments arguments = named.comm->receive_arguments(buf, count, *named.type, source, tag);
  const Inside inside(world, engine);
  Request* made = inside ? engine.p2p.ireceive_shortly(arguments) : nullptr;
  if (made) *request = reinterpret_cast<MPI_Request>(world.requests_of(engine).give(made));
  return made != nullptr;
}

bool Wait(World& world, MPI_Request* request, MPI_Status* status) { return Waitall(world, 1, request, status); }

bool Test(World& world, MPI_Request* request, int* flag, MPI_Status* status) {
  if (!flag || !end_all(world, 1, request, status, {.looks = 1})) return false;
  *flag = 1;
  return true;
}

bool Waitall(World& world, int count, MPI_Request* array_of_requests, MPI_Status* array_of_statuses) {
  return end_all(world, count, array_of_requests, array_of_statuses, patience_of_waiting(world));
}

namespace {

/// Inside of a window's gate, or not: the gate is closed, or there is no such window.
class InWindow {
 public:
  InWindow(World& world, MPI_Win handle) {
    Window* found = world.observed ? nullptr : world.handles.windows.find_unlocked(value_of(handle));
    if (!found) return;
    window_ = found->window.get();
    place_ = window_->gate().enter(ThreadNumber::get());
  }
  ~InWindow() {
    if (place_) window_->gate().leave(*place_);
  }
  InWindow(const InWindow&) = delete;
  InWindow& operator=(const InWindow&) = delete;
  explicit operator bool() const { return place_ != nullptr; }

  bool move(const rma::Operation& operation) const {
    if (!window_->move_shortly(operation)) return false;
    ++(operation.is_put() ? place_->puts : place_->gets);
    return true;
  }
  /// Whether there is nothing to wait for. `calls`: how often the thread has asked.
  bool is_flushed(int rank, uint32_t& calls) const {
    calls = ++place_->calls;
    return window_->is_flushed(rank);
  }

 private:
  rma::Window* window_ = nullptr;
  rma::WindowGate::Place* place_ = nullptr;
};

bool flush(World& world, int rank, MPI_Win win) {
  uint32_t calls = 0;
  {
    const InWindow inside(world, win);
    if (!inside || !inside.is_flushed(rank, calls)) return false;
  }
  std::atomic_thread_fence(std::memory_order_acq_rel);
  if (calls % limits_of(Look::window_call).looks == 0) [[unlikely]]
    look_after_rest(world);
  return true;
}

}  // namespace

bool Put(World& world, const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,
         Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Win win) {
  const InWindow inside(world, win);
  Datatype* type = inside && origin_datatype == target_datatype ? find_predefined(world, origin_datatype) : nullptr;
  return type && is_memory(origin_addr) &&
         inside.move(
             rma::Operation::put(origin_addr, origin_count, *type, target_rank, target_disp, target_count, *type));
}

bool Get(World& world, void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,
         Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Win win) {
  const InWindow inside(world, win);
  Datatype* type = inside && origin_datatype == target_datatype ? find_predefined(world, origin_datatype) : nullptr;
  return type && is_memory(origin_addr) &&
         inside.move(
             rma::Operation::get(origin_addr, origin_count, *type, target_rank, target_disp, target_count, *type));
}

bool Win_flush(World& world, int rank, MPI_Win win) { return flush(world, rank, win); }

bool Win_flush_local(World& world, int rank, MPI_Win win) { return flush(world, rank, win); }

}  // namespace tern::capi::short_calls
