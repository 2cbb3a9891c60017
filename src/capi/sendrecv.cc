// MPI_Sendrecv and its kin. Source: MPI 5.0 sections 3.10, 3.7.2.
#include <optional>

#include "base/scratch.h"
#include "capi/checks.h"
#include "capi/requests.h"
#include "datatype/cursor.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

/// What a call with one buffer for both ways sends.
class PackedCopy {
 public:
  PackedCopy(Scratch& scratch, const void* buf, Count count, const Datatype& type)
      : bytes_(size_t(count * type.size())), large_(bytes_ > sizeof few_ ? scratch.block(bytes_) : ScratchBlock()) {
    Cursor(const_cast<void*>(buf), count, type).pack(data(), bytes_);
  }
  std::byte* data() { return large_ ? large_.data() : few_; }
  Count bytes() const { return Count(bytes_); }

 private:
  const size_t bytes_;
  ScratchBlock large_;
  std::byte few_[256];
};

/// MPI_Isendrecv: one request over a send and a receive, with the receive's status. Owns the packed copy of
/// MPI_Isendrecv_replace.
class SendReceive final : public Request {
 public:
  SendReceive() : Request(Kind::receive) {}
  SendReceive(Scratch& scratch, const void* buf, Count count, const Datatype& type)
      : Request(Kind::receive), packed_(std::in_place, scratch, buf, count, type) {}
  PackedCopy& packed() { return *packed_; }

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
  std::optional<PackedCopy> packed_;
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
    arguments.stay = dest == kProcNull ? Stay::now : Stay::after_send;
    receive = checks ? checks->ireceive(arguments) : comm.p2p(recvtag).ireceive(arguments);
  }
  Error error;
  if (dest != kProcNull) {
    SendArguments arguments = comm.send_arguments(sendbuf, sendcount, sendtype, dest, sendtag);
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

Count count_to(int dest, Count count) { return dest == kProcNull ? 0 : count; }

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
  PackedCopy copy(comm.environment().scratch, buf, count_to(dest, count), datatype);
  return exchange(call, copy.data(), copy.bytes(), call.world().predefined.types.get(type_id::kByte), dest, sendtag,
                  buf, count, datatype, source, recvtag, comm, status, datatype, count);
}

Error Isendrecv(Call& call, const void* sendbuf, Count sendcount, Datatype& sendtype, int dest, int sendtag,
                void* recvbuf, Count recvcount, Datatype& recvtype, int source, int recvtag, Communicator& comm,
                Request*& request) {
  request = begin_exchange(new SendReceive(), sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                           source, recvtag, comm);
  return {};
}

Error Isendrecv_replace(Call& call, void* buf, Count count, Datatype& datatype, int dest, int sendtag, int source,
                        int recvtag, Communicator& comm, Request*& request) {
  auto* both = new SendReceive(comm.environment().scratch, buf, count_to(dest, count), datatype);
  request = begin_exchange(both, both->packed().data(), both->packed().bytes(),
                           call.world().predefined.types.get(type_id::kByte), dest, sendtag, buf, count, datatype,
                           source, recvtag, comm);
  return {};
}

}  // namespace body
}  // namespace tern::capi
