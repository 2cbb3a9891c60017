#include "capi/without_lock.h"

#include "capi/call.h"
#include "capi/requests.h"

namespace tern::capi::short_calls {

namespace {

/// Inside of an engine's gate; false: it is closed.
class Inside {
 public:
  explicit Inside(Engine& engine) : engine_(engine), inside_(engine.gate.enter(std::this_thread::get_id())) {}
  ~Inside() {
    if (inside_) engine_.gate.leave();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  Engine& engine_;
  const bool inside_;
};

/// What the handles of a message name, if that is for short calls: a communicator with an engine, and a predefined
/// datatype (which nobody counts and nobody frees).
struct Named {
  Communicator* comm = nullptr;
  const Datatype* type = nullptr;

  Named(World& world, MPI_Comm comm_handle, MPI_Datatype type_handle) {
    const uintptr_t type_value = value_of(type_handle);
    if (world.observed || type_value - world.types.kFirstPredefined > 0xff) return;
    Communicator* found = world.comms.find_unlocked(value_of(comm_handle));
    if (!found || !found->engine()) return;
    type = world.types.find_unlocked(type_value);
    if (type && type->is_predefined()) comm = found;
  }
  explicit operator bool() const { return comm != nullptr; }
};

bool is_memory(const void* buffer) { return value_of(buffer) > 2; }

bool is_rank(int rank, const Communicator& comm) { return unsigned(rank) < unsigned(comm.peer_group().size()); }

bool is_message_to(const void* buffer, Count count, int dest, int tag, const Communicator& comm) {
  return count >= 0 && tag >= 0 && is_memory(buffer) && is_rank(dest, comm);
}
bool is_message_from(const void* buffer, Count count, int source, int tag, const Communicator& comm) {
  return count >= 0 && (tag >= 0 || tag == kAnyTag) && is_memory(buffer) &&
         (source == kAnySource || is_rank(source, comm));
}

/// Whether a request is over, and its end is nobody's but this call's affair.
bool ends_shortly(const Request& request) {
  return request.complete() && is_plain(request) && !request.on_complete && !request.error_object && !request.continued;
}

void end(World::EngineRequests& requests, MPI_Request& handle, Request& request, MPI_Status* status) {
  put_status(status, request.status);
  requests.retire(value_of(handle));
  handle = MPI_REQUEST_NULL;
  request.release();
}

}  // namespace

bool Send(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  const Named named(world, comm, datatype);
  if (!named || !is_message_to(buf, count, dest, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine();
  const Inside inside(engine);
  return inside && engine.p2p.send_shortly(named.comm->send_arguments(buf, count, *named.type, dest, tag));
}

bool Recv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Status* status) {
  const Named named(world, comm, datatype);
  if (!named || !is_message_from(buf, count, source, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine();
  Status result;
  {
    const Inside inside(engine);
    if (!inside ||
        !engine.p2p.receive_shortly(named.comm->receive_arguments(buf, count, *named.type, source, tag), result))
      return false;
  }
  put_status(status, result);
  return true;
}

bool Isend(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
           MPI_Request* request) {
  const Named named(world, comm, datatype);
  if (!named || !request || !is_message_to(buf, count, dest, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine();
  SendArguments arguments = named.comm->send_arguments(buf, count, *named.type, dest, tag);
  arguments.requested = true;
  const Inside inside(engine);
  Request* made = inside ? engine.p2p.isend_shortly(arguments) : nullptr;
  if (made) *request = reinterpret_cast<MPI_Request>(world.requests_of(engine).give(made));
  return made != nullptr;
}

bool Irecv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
           MPI_Request* request) {
  const Named named(world, comm, datatype);
  if (!named || !request || !is_message_from(buf, count, source, tag, *named.comm)) return false;
  Engine& engine = *named.comm->engine();
  const ReceiveArguments arguments = named.comm->receive_arguments(buf, count, *named.type, source, tag);
  const Inside inside(engine);
  Request* made = inside ? engine.p2p.ireceive_shortly(arguments) : nullptr;
  if (made) *request = reinterpret_cast<MPI_Request>(world.requests_of(engine).give(made));
  return made != nullptr;
}

bool Wait(World& world, MPI_Request* request, MPI_Status* status) { return Waitall(world, 1, request, status); }

bool Test(World& world, MPI_Request* request, int* flag, MPI_Status* status) {
  if (!flag || !Waitall(world, 1, request, status)) return false;
  *flag = 1;
  return true;
}

bool Waitall(World& world, int count, MPI_Request* array_of_requests, MPI_Status* array_of_statuses) {
  constexpr int kFew = 64;  // as Requests::kFew, for which no memory is allocated
  if (world.observed || count <= 0 || count > kFew || !array_of_requests) return false;
  Engine* engine = world.engine_of(array_of_requests[0]);
  if (!engine) return false;
  World::EngineRequests& requests = world.requests_of(*engine);
  Request* found[kFew];
  const Inside inside(*engine);
  if (!inside) return false;
  for (int i = 0; i < count; ++i) {
    found[i] = requests.find_user(value_of(array_of_requests[i]));
    if (!found[i] || !ends_shortly(*found[i])) return false;
  }
  for (int i = 0; i < count; ++i) {
    MPI_Status* const status = array_of_statuses ? array_of_statuses + i : nullptr;
    if (requests.find_user(value_of(array_of_requests[i])) == found[i]) [[likely]] {
      end(requests, array_of_requests[i], *found[i], status);
    } else {  // the same one twice
      array_of_requests[i] = MPI_REQUEST_NULL;
      put_status(status, kEmptyStatus);
      if (status) status->MPI_ERROR = MPI_SUCCESS;
    }
  }
  return true;
}

}  // namespace tern::capi::short_calls
