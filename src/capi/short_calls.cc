#include "capi/short_calls.h"

#include "capi/call.h"

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

}  // namespace

bool Send(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  const Named named(world, comm, datatype);
  if (!named || count < 0 || tag < 0 || !is_memory(buf) || !is_rank(dest, *named.comm)) return false;
  const Inside inside(*named.comm->engine());
  return inside && named.comm->engine()->p2p.send_shortly(
                       named.comm->send_arguments(buf, count, *named.type, dest, tag));
}

bool Recv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Status* status) {
  const Named named(world, comm, datatype);
  if (!named || count < 0 || (tag < 0 && tag != kAnyTag) || !is_memory(buf) ||
      (source != kAnySource && !is_rank(source, *named.comm)))
    return false;
  Status result;
  {
    const Inside inside(*named.comm->engine());
    if (!inside || !named.comm->engine()->p2p.receive_shortly(
                       named.comm->receive_arguments(buf, count, *named.type, source, tag), result))
      return false;
  }
  put_status(status, result);
  return true;
}

}  // namespace tern::capi::short_calls
