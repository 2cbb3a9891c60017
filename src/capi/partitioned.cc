// Partitioned communication. Source: MPI 5.0, chapter 4.
#include <fmt/format.h>

#include "capi/requests.h"
#include "impl.gen.h"
#include "partitioned/receive.h"
#include "partitioned/send.h"

namespace tern::capi {

namespace {

using partitioned::PartitionedReceive;
using partitioned::PartitionedSend;

Error check_partitions(int partitions) {
  if (partitions > 0) return {};
  return Error(ErrorClass::arg,
               fmt::format("argument 'partitions' is {}, but a partitioned operation has at least one", partitions));
}

/// `rank`: the other side's.
partitioned::Arguments arguments(const void* buf, int partitions, Count count, Datatype& type, int rank, int sender,
                                 int tag, Communicator& comm) {
  return {.buffer = const_cast<void*>(buf),
          .partitions = partitions,
          .count = count,
          .type = &type,
          .peer = rank == kProcNull ? kNoPeer : comm.peer(rank),
          .source = sender,
          .tag = tag,
          .context = comm.context(Communicator::Plane::point_to_point)};
}

Error find_send(Call& call, Request& request, PartitionedSend*& send) {
  send = dynamic_cast<PartitionedSend*>(&request);
  if (!send) return Error(ErrorClass::request, "the request was not made by MPI_Psend_init");
  if (request.error_object) call.blame(static_cast<Communicator*>(request.error_object));
  return {};
}

// Threads that mark partitions at the same time meet only where one of them has to send.
template <typename... What>
Error mark_ready(Call& call, Request& request, What... what) {
  PartitionedSend* send;
  if (Error error = find_send(call, request, send)) return error;
  const PartitionedSend::Marked marked = send->mark(what...);
  if (marked.nothing_left()) return {};
  call.enter_after_all();
  return send->finish(marked, what...);
}

}  // namespace

namespace body {

Error Psend_init(Call& call, const void* buf, int partitions, Count count, Datatype& datatype, int dest, int tag,
                 Communicator& comm, Info* info, Request*& request) {
  if (Error error = check_partitions(partitions)) return error;
  request =
      call.process().partitioned().make_send(arguments(buf, partitions, count, datatype, dest, comm.rank(), tag, comm));
  return {};
}

Error Precv_init(Call& call, void* buf, int partitions, Count count, Datatype& datatype, int source, int tag,
                 Communicator& comm, Info* info, Request*& request) {
  if (Error error = check_partitions(partitions)) return error;
  if (source == kAnySource || tag == kAnyTag) {
    return Error(ErrorClass::arg, source == kAnySource
                                      ? "argument 'source' is MPI_ANY_SOURCE, which a partitioned receive cannot take"
                                      : "argument 'tag' is MPI_ANY_TAG, which a partitioned receive cannot take");
  }
  request =
      call.process().partitioned().make_receive(arguments(buf, partitions, count, datatype, source, source, tag, comm));
  return {};
}

Error Pready(Call& call, int partition, Request& request) { return mark_ready(call, request, partition, partition); }

Error Pready_range(Call& call, int partition_low, int partition_high, Request& request) {
  if (partition_high < partition_low) {
    PartitionedSend* send;
    if (Error error = find_send(call, request, send)) return error;
    return Error(ErrorClass::arg, fmt::format("argument 'partition_high' is {}, less than 'partition_low', which is {}",
                                              partition_high, partition_low));
  }
  return mark_ready(call, request, partition_low, partition_high);
}

Error Pready_list(Call& call, int length, const int* array_of_partitions, Request& request) {
  if (length < 0) {
    PartitionedSend* send;
    if (Error error = find_send(call, request, send)) return error;
    return Error(ErrorClass::arg, fmt::format("argument 'length' is {}, but cannot be negative", length));
  }
  return mark_ready(call, request, array_of_partitions, length);
}

Error Parrived(Call& call, Request* request, int partition, bool& flag) {
  flag = true;
  if (!request) return {};
  auto* receive = dynamic_cast<PartitionedReceive*>(request);
  if (!receive) return Error(ErrorClass::request, "the request was not made by MPI_Precv_init");
  if (request->error_object) call.blame(static_cast<Communicator*>(request->error_object));
  const int partitions = receive->arguments().partitions;
  if (partition < 0 || partition >= partitions) {
    return Error(ErrorClass::arg,
                 fmt::format("partition {} does not exist: the receive has {}", partition, partitions));
  }
  if (receive->arrived_for_sure(partition)) return {};
  call.enter_after_all();
  if (!receive->active() || receive->arrived(partition)) return {};
  call.process().progress().look();
  // After an error nothing more will come; the completing call tells of it.
  flag = receive->arrived(partition) || receive->complete();
  return {};
}

}  // namespace body
}  // namespace tern::capi
