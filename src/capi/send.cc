// Sends: blocking, nonblocking, persistent, in all modes. Source: MPI 5.0 sections 3.2, 3.4, 3.6, 3.7.2, 3.9.
#include "capi/attached_buffer.h"
#include "capi/checks.h"
#include "capi/requests.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

const Datatype& byte_type(World& world) { return world.predefined.types.get(type_id::kByte); }

// With TERN_CHECK, or a message engine. Out of line: without it a send would save more registers.
[[gnu::noinline]] Error send_specially(Call& call, const SendArguments& arguments, Communicator& comm) {
  if (!call.checks()) return comm.p2p(arguments.tag).send(arguments);
  return call.checks()->send(arguments, arguments.count, *arguments.type);
}

[[gnu::noinline]] Request* isend_specially(Call& call, const SendArguments& arguments, Communicator& comm) {
  return call.checks() ? call.checks()->isend(arguments) : comm.p2p(arguments.tag).isend(arguments);
}

// Inlined: these are the whole of the most frequent calls.
[[gnu::always_inline]] inline Error send(Call& call, const void* buf, Count count, Datatype& type, int dest, int tag,
                                         Communicator& comm, SendMode mode) {
  if (dest == kProcNull) return {};
  if (!call.is_plain()) [[unlikely]]
    return send_specially(call, comm.send_arguments(buf, count, type, dest, tag, mode), comm);
  return comm.p2p_without_engine().send(comm.send_arguments(buf, count, type, dest, tag, mode));
}

[[gnu::always_inline]] inline Error isend(Call& call, const void* buf, Count count, Datatype& type, int dest, int tag,
                                          Communicator& comm, SendMode mode, Request*& request) {
  if (dest == kProcNull) {
    request = comm.p2p(tag).completed();
  } else {
    SendArguments arguments = comm.send_arguments(buf, count, type, dest, tag, mode);
    arguments.requested = true;
    if (!call.is_plain()) [[unlikely]]
      request = isend_specially(call, arguments, comm);
    else request = comm.p2p_without_engine().isend(arguments);
  }
  return {};
}

Error send_init(Call& call, const void* buf, Count count, Datatype& type, int dest, int tag, Communicator& comm,
                SendMode mode, Request*& request) {
  if (dest == kProcNull) {
    request = new InstantRequest(Request::Kind::send, kEmptyStatus);
  } else {
    SendArguments arguments = comm.send_arguments(buf, count, type, dest, tag, mode);
    arguments.requested = true;
    if (Checks* checks = call.checks()) checks->prepare(buf, count, type, false);
    request = comm.p2p(tag).send_init(arguments);
  }
  return {};
}

Error bsend(World& world, const void* buf, Count count, Datatype& type, int dest, int tag, Communicator& comm,
            BufferedSend* user) {
  if (dest == kProcNull) return {};
  if (Engine* engine = comm.engine(tag)) engine->retire();  // calls that end such a send may not name the communicator
  AttachedBuffer& buffer = buffer_for(world, comm);
  if (!buffer.attached()) {
    // As if a buffer of no bytes were attached (3.6): an empty message passes.
    if (count * type.size() == 0) return comm.p2p(tag).send(comm.send_arguments(buf, count, type, dest, tag));
    return Error(ErrorClass::buffer, "no buffer is attached for a message of " + std::to_string(count * type.size()) +
                                         " bytes. Call MPI_Buffer_attach (or MPI_Comm_attach_buffer) before.");
  }
  return buffer.send(comm, buf, count, type, dest, tag, byte_type(world), user);
}

/// MPI_Bsend_init: starting it copies the message, so it is complete at once.
class PersistentBsend final : public BufferedSend {
 public:
  PersistentBsend(World& world, const void* buf, Count count, Datatype& type, int dest, int tag, Communicator& comm)
      : BufferedSend(true),
        world_(world),
        buf_(buf),
        count_(count),
        type_(Ref<Datatype>::share(&type)),
        dest_(dest),
        tag_(tag),
        comm_(Ref<Communicator>::share(&comm)) {}
  Error start() override {
    forget();
    if (Error failed = bsend(world_, buf_, count_, *type_, dest_, tag_, *comm_, this)) return failed;
    restart();
    complete_ = true;
    return {};
  }

 private:
  World& world_;
  const void* buf_;
  Count count_;
  Ref<Datatype> type_;
  int dest_, tag_;
  Ref<Communicator> comm_;
};

}  // namespace

namespace body {

Error Send(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm) {
  return send(call, buf, count, datatype, dest, tag, comm, SendMode::standard);
}
Error Ssend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm) {
  return send(call, buf, count, datatype, dest, tag, comm, SendMode::synchronous);
}
Error Rsend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm) {
  return send(call, buf, count, datatype, dest, tag, comm, SendMode::ready);
}
Error Bsend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm) {
  return bsend(call.world(), buf, count, datatype, dest, tag, comm, nullptr);
}

Error Isend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
            Request*& request) {
  return isend(call, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
Error Issend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
             Request*& request) {
  return isend(call, buf, count, datatype, dest, tag, comm, SendMode::synchronous, request);
}
Error Irsend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
             Request*& request) {
  return isend(call, buf, count, datatype, dest, tag, comm, SendMode::ready, request);
}
Error Ibsend(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
             Request*& request) {
  auto* send = new BufferedSend(false);
  if (Error error = bsend(call.world(), buf, count, datatype, dest, tag, comm, send)) {
    send->release();
    return error;
  }
  request = send;
  return {};
}

Error Send_init(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
                Request*& request) {
  return send_init(call, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
Error Ssend_init(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
                 Request*& request) {
  return send_init(call, buf, count, datatype, dest, tag, comm, SendMode::synchronous, request);
}
Error Rsend_init(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
                 Request*& request) {
  return send_init(call, buf, count, datatype, dest, tag, comm, SendMode::ready, request);
}
Error Bsend_init(Call& call, const void* buf, Count count, Datatype& datatype, int dest, int tag, Communicator& comm,
                 Request*& request) {
  request = new PersistentBsend(call.world(), buf, count, datatype, dest, tag, comm);
  return {};
}

}  // namespace body
}  // namespace tern::capi
