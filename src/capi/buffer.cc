// MPI_Buffer_*, MPI_Comm_*_buffer, MPI_Session_*_buffer. Source: MPI 5.0 section 3.6.
#include "capi/requests.h"
#include "impl.gen.h"

namespace tern::capi {

AttachedBuffer& buffer_for(World& world, Communicator& comm) {
  if (!world.buffers.comms.empty()) {
    auto own = world.buffers.comms.find(&comm);
    if (own != world.buffers.comms.end() && own->second->attached()) return *own->second;
  }
  if (Session* session = session_of(world, comm); session && session->buffer.attached()) return session->buffer;
  return world.buffers.rank;
}

bool Call::flush_and_drop(Communicator& comm) {
  auto own = world_.buffers.comms.find(&comm);
  if (own != world_.buffers.comms.end()) {
    own->second->flush(process().progress());
    world_.buffers.comms.erase(&comm);
  }
  return true;
}

namespace {

Error attach(AttachedBuffer& to, void* memory, Count bytes) {
  if (to.attached()) {
    return Error(ErrorClass::buffer, "there is already a buffer attached here. Detach it first.");
  }
  bool automatic = memory == MPI_BUFFER_AUTOMATIC;
  if (!automatic && memory == nullptr && bytes > 0) {
    return Error(ErrorClass::buffer, "argument 'buffer' is a null pointer, but the size is " + std::to_string(bytes));
  }
  // A null pointer stands for automatic inside; an empty buffer at null gets an address that is never used.
  static std::byte nothing;
  to.attach(automatic ? nullptr : memory ? memory : &nothing, automatic ? 0 : bytes);
  return {};
}

Error none() { return Error(ErrorClass::buffer, "no buffer is attached here. Attach one first, and detach it once"); }

Error detach(Call& call, AttachedBuffer& from, void* buffer_addr, Count& size) {
  if (!from.attached()) return none();
  void* memory = nullptr;
  from.detach(call.process().progress(), memory, size);
  *static_cast<void**>(buffer_addr) = memory ? memory : MPI_BUFFER_AUTOMATIC;
  return {};
}

Error flush(Call& call, AttachedBuffer& buffer) {
  if (!buffer.attached()) return none();
  buffer.flush(call.process().progress());
  return {};
}

Error iflush(AttachedBuffer& buffer, Request*& request) {
  if (!buffer.attached()) return none();
  request = buffer.iflush();
  return {};
}

AttachedBuffer& own_buffer(Call& call, Communicator& comm) {
  auto& slot = call.world().buffers.comms[&comm];
  if (!slot) slot = std::make_unique<AttachedBuffer>();
  return *slot;
}

}  // namespace

namespace body {

Error Buffer_attach(Call& call, void* buffer, Count size) { return attach(call.world().buffers.rank, buffer, size); }
Error Comm_attach_buffer(Call& call, Communicator& comm, void* buffer, Count size) {
  return attach(own_buffer(call, comm), buffer, size);
}
Error Session_attach_buffer(Call& call, Session& session, void* buffer, Count size) {
  return attach(session.buffer, buffer, size);
}

Error Buffer_detach(Call& call, void* buffer_addr, Count& size) {
  return detach(call, call.world().buffers.rank, buffer_addr, size);
}
Error Comm_detach_buffer(Call& call, Communicator& comm, void* buffer_addr, Count& size) {
  Error error = detach(call, own_buffer(call, comm), buffer_addr, size);
  if (!error) call.world().buffers.comms.erase(&comm);
  return error;
}
Error Session_detach_buffer(Call& call, Session& session, void* buffer_addr, Count& size) {
  return detach(call, session.buffer, buffer_addr, size);
}

Error Buffer_flush(Call& call) { return flush(call, call.world().buffers.rank); }
Error Comm_flush_buffer(Call& call, Communicator& comm) { return flush(call, own_buffer(call, comm)); }
Error Session_flush_buffer(Call& call, Session& session) { return flush(call, session.buffer); }

Error Buffer_iflush(Call& call, Request*& request) { return iflush(call.world().buffers.rank, request); }
Error Comm_iflush_buffer(Call& call, Communicator& comm, Request*& request) {
  return iflush(own_buffer(call, comm), request);
}
Error Session_iflush_buffer(Call& call, Session& session, Request*& request) { return iflush(session.buffer, request); }

}  // namespace body
}  // namespace tern::capi
