// Receives, probes and matched probes. Source: MPI 5.0 sections 3.2.4, 3.7.2, 3.8, 3.9.
#include "capi/checks.h"
#include "capi/promises.h"
#include "capi/requests.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

// With TERN_CHECK, or a message engine. Out of line: without it a receive would save more registers.
[[gnu::noinline]] Error receive_specially(Call& call, void* buf, Count count, Datatype& datatype, int source, int tag,
                                          Communicator& comm, Status& result) {
  if (!call.checks()) return comm.p2p(tag).receive(comm.receive_arguments(buf, count, datatype, source, tag), result);
  check_receive_promises(call, comm, source, tag);
  Error error = call.checks()->receive(comm.receive_arguments(buf, count, datatype, source, tag), result);
  if (!error) check_length_promise(call, comm, count * datatype.size(), result);
  return error;
}

[[gnu::noinline]] Request* ireceive_specially(Call& call, void* buf, Count count, Datatype& datatype, int source,
                                              int tag, Communicator& comm) {
  if (!call.checks()) return comm.p2p(tag).ireceive(comm.receive_arguments(buf, count, datatype, source, tag));
  check_receive_promises(call, comm, source, tag);
  return call.checks()->ireceive(comm.receive_arguments(buf, count, datatype, source, tag));
}

}  // namespace

namespace body {

Error Recv(Call& call, void* buf, Count count, Datatype& datatype, int source, int tag, Communicator& comm,
           MPI_Status* status) {
  Status result = kProcNullStatus;
  Error error;
  if (source != kProcNull) {
    if (!call.is_plain()) [[unlikely]]
      error = receive_specially(call, buf, count, datatype, source, tag, comm, result);
    else error = comm.p2p_without_engine().receive(comm.receive_arguments(buf, count, datatype, source, tag), result);
  }
  put_status(status, result);
  return error;
}

Error Irecv(Call& call, void* buf, Count count, Datatype& datatype, int source, int tag, Communicator& comm,
            Request*& request) {
  if (source == kProcNull) {
    request = comm.p2p(tag).completed(kProcNullStatus);
    return {};
  }
  // Not one object for both: whose address is given away must be in memory.
  if (!call.is_plain()) [[unlikely]]
    request = ireceive_specially(call, buf, count, datatype, source, tag, comm);
  else request = comm.p2p_without_engine().ireceive(comm.receive_arguments(buf, count, datatype, source, tag));
  return {};
}

Error Recv_init(Call& call, void* buf, Count count, Datatype& datatype, int source, int tag, Communicator& comm,
                Request*& request) {
  request = source == kProcNull ? new InstantRequest(Request::Kind::receive, kProcNullStatus)
                                : comm.p2p(tag).receive_init(comm.receive_arguments(buf, count, datatype, source, tag));
  if (call.checks() && source != kProcNull) {
    check_receive_promises(call, comm, source, tag);
    call.checks()->prepare(buf, count, datatype, true);
    call.checks()->watch(*request);
  }
  return {};
}

Error Iprobe(Call& call, int source, int tag, Communicator& comm, bool& flag, MPI_Status* status) {
  Status found = kProcNullStatus;
  flag = source == kProcNull || comm.p2p(tag).iprobe(source, tag, comm.context(), found);
  if (Checks* checks = call.checks(); checks && source != kProcNull) [[unlikely]]
    checks->probed(comm, flag ? &found : nullptr);
  if (flag) put_status(status, found);
  return {};
}

Error Probe(Call& call, int source, int tag, Communicator& comm, MPI_Status* status) {
  Status found = kProcNullStatus;
  if (source != kProcNull) {
    found = comm.p2p(tag).probe(source, tag, comm.context());
    if (Checks* checks = call.checks()) [[unlikely]]
      checks->probed(comm, &found);
  }
  put_status(status, found);
  return {};
}

Error Improbe(Call& call, int source, int tag, Communicator& comm, bool& flag, Message*& message, MPI_Status* status) {
  Status found = kProcNullStatus;
  if (source == kProcNull) {
    message = &call.world().predefined.no_proc;
  } else if (MatchedMessage* matched = comm.p2p(tag).improbe(source, tag, comm.context(), found)) {
    comm.add_ref();
    message = new Message(matched, comm.p2p(tag), &comm);
  }
  flag = message != nullptr;
  if (flag) put_status(status, found);
  return {};
}

Error Mprobe(Call& call, int source, int tag, Communicator& comm, Message*& message, MPI_Status* status) {
  Status found = kProcNullStatus;
  if (source == kProcNull) {
    message = &call.world().predefined.no_proc;
  } else {
    MatchedMessage* matched = comm.p2p(tag).mprobe(source, tag, comm.context(), found);
    comm.add_ref();
    message = new Message(matched, comm.p2p(tag), &comm);
  }
  put_status(status, found);
  return {};
}

Error Mrecv(Call& call, void* buf, Count count, Datatype& datatype, Message*& message, MPI_Status* status) {
  if (message == &call.world().predefined.no_proc) {
    put_status(status, kProcNullStatus);
    message = nullptr;
    return {};
  }
  std::unique_ptr<Message> consumed(message);
  message = nullptr;
  Status result;
  Error error = consumed->p2p->mreceive(consumed->matched, buf, count, datatype, result);
  put_status(status, result);
  call.blame_last(Ref<Communicator>::adopt(consumed->comm));
  return error;
}

Error Imrecv(Call& call, void* buf, Count count, Datatype& datatype, Message*& message, Request*& request) {
  if (message == &call.world().predefined.no_proc) {
    request = call.process().p2p().completed(kProcNullStatus);
    message = nullptr;
    return {};
  }
  std::unique_ptr<Message> consumed(message);
  message = nullptr;
  request = consumed->p2p->imreceive(consumed->matched, buf, count, datatype);
  request->error_object = consumed->comm;  // the message's reference now belongs to the request
  if (call.checks()) {
    call.checks()->prepare(buf, count, datatype, true);
    call.checks()->watch(*request);
  }
  return {};
}

}  // namespace body
}  // namespace tern::capi
