// MPI_Sendrecv and its kin. Source: MPI 5.0 sections 3.10, 3.7.2.
#include <vector>

#include "capi/checks.h"
#include "capi/requests.h"
#include "datatype/cursor.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

/// MPI_Isendrecv: one request over a send and a receive, with the receive's status. Owns the packed copy of
/// MPI_Isendrecv_replace.
class SendReceive final : public Request {
 public:
  explicit SendReceive(std::vector<std::byte> packed) : Request(Kind::receive), packed_(std::move(packed)) {}
  const std::byte* packed() const { return packed_.data(); }

  /// Takes the two over; they may be complete already. They are given back at once and go by themselves on
  /// completion.
  void begin(Request* send, Request* receive) {
    watch(*receive, [](Request& done) {
      auto* both = static_cast<SendReceive*>(done.watcher);
      both->status = done.status;
      both->part_done(done);
    });
    watch(*send, [](Request& done) { static_cast<SendReceive*>(done.watcher)->part_done(done); });
  }

 private:
  void watch(Request& part, void (*done)(Request&)) {
    part.watcher = this;
    if (part.complete()) {
      done(part);
    } else {
      part.on_complete = done;
    }
    part.release();
  }
  void part_done(Request& part) {
    if (part.error && !error) error = std::move(part.error);
    if (++done_ == 2) set_complete();
  }
  void destroy() override { delete this; }

  int done_ = 0;
  std::vector<std::byte> packed_;
};

/// Both ways at once; a partner MPI_PROC_NULL is left out. `signature`, `signature_count`: what the program sends, of
/// which the send buffer may be a packed copy.
Error exchange(Call& call, const void* sendbuf, Count sendcount, const Datatype& sendtype, int dest, int sendtag,
               void* recvbuf, Count recvcount, const Datatype& recvtype, int source, int recvtag, Communicator& comm,
               MPI_Status* status, const Datatype& signature, Count signature_count) {
  Checks* const checks = call.checks();
  Request* receive = nullptr;
  if (source != kProcNull) {
    ReceiveArguments arguments = comm.receive_arguments(recvbuf, recvcount, recvtype, source, recvtag);
    arguments.stays = true;
    receive = checks ? checks->ireceive(arguments) : comm.p2p(recvtag).ireceive(arguments);
  }
  Error error;
  if (dest != kProcNull) {
    SendArguments arguments = comm.send_arguments(sendbuf, sendcount, sendtype, dest, sendtag);
    arguments.beside_receive = receive && recvcount * recvtype.size() >= sendcount * sendtype.size();
    error = checks ? checks->send(arguments, signature_count, signature) : comm.p2p(sendtag).send(arguments);
  }
  Status result = kProcNullStatus;
  if (receive) {
    if (error) receive->cancel();
    comm.p2p(recvtag).wait(*receive);
    result = receive->status;
    if (!error) error = std::move(receive->error);
    receive->release();
  }
  put_status(status, result);
  return error;
}

std::vector<std::byte> packed_copy(const void* buf, Count count, const Datatype& type) {
  std::vector<std::byte> copy(static_cast<size_t>(count * type.size()));
  Cursor(const_cast<void*>(buf), count, type).pack(copy.data(), copy.size());
  return copy;
}

Request* begin_exchange(SendReceive* both, const void* sendbuf, Count sendcount, const Datatype& sendtype, int dest,
                        int sendtag, void* recvbuf, Count recvcount, const Datatype& recvtype, int source, int recvtag,
                        Communicator& comm) {
  for (const int tag : {sendtag, recvtag}) {
    if (Engine* engine = comm.engine(tag)) engine->retire();  // the end of one of them is the other's affair
  }
  PointToPoint &sends = comm.p2p(sendtag), &receives = comm.p2p(recvtag);
  Request* receive = source == kProcNull
                         ? receives.completed(kProcNullStatus)
                         : receives.ireceive(comm.receive_arguments(recvbuf, recvcount, recvtype, source, recvtag));
  Request* send = dest == kProcNull ? sends.completed()
                                    : sends.isend(comm.send_arguments(sendbuf, sendcount, sendtype, dest, sendtag));
  both->begin(send, receive);
  return both;
}

}  // namespace

namespace body {

Error Sendrecv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, int dest, int sendtag,
               void* recvbuf, Count recvcount, Datatype& recvtype, int source, int recvtag, Communicator& comm,
               MPI_Status* status) {
  return exchange(call, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
                  comm, status, sendtype, sendcount);
}

Error Sendrecv_replace(Call& call, void* buf, Count count, Datatype& datatype, int dest, int sendtag, int source,
                       int recvtag, Communicator& comm, MPI_Status* status) {
  std::vector<std::byte> copy;
  if (dest != kProcNull) copy = packed_copy(buf, count, datatype);
  const Datatype& bytes = call.world().predefined.types.get(type_id::kByte);
  return exchange(call, copy.data(), static_cast<Count>(copy.size()), bytes, dest, sendtag, buf, count, datatype,
                  source, recvtag, comm, status, datatype, count);
}

Error Isendrecv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, int dest, int sendtag,
                void* recvbuf, Count recvcount, Datatype& recvtype, int source, int recvtag, Communicator& comm,
                Request*& request) {
  request = begin_exchange(new SendReceive({}), sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                           recvtype, source, recvtag, comm);
  return {};
}

Error Isendrecv_replace(Call& call, void* buf, Count count, Datatype& datatype, int dest, int sendtag, int source,
                        int recvtag, Communicator& comm, Request*& request) {
  std::vector<std::byte> copy;
  if (dest != kProcNull) copy = packed_copy(buf, count, datatype);
  Count bytes = static_cast<Count>(copy.size());
  auto* both = new SendReceive(std::move(copy));
  request = begin_exchange(both, both->packed(), bytes, call.world().predefined.types.get(type_id::kByte), dest,
                           sendtag, buf, count, datatype, source, recvtag, comm);
  return {};
}

}  // namespace body
}  // namespace tern::capi
