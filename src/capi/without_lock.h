// Short calls: what threads do without the rank's lock: with a message engine alone (p2p/engines.h), and in memory that
// the rank reaches through a window (rma/window_gate.h). Entry points try them first, with MPI_THREAD_MULTIPLE. True:
// all that the call has to do is done. False: nothing has happened, and the call takes the ordinary way, which also
// finds what is wrong with its arguments. Thread rule: any thread, without the rank's lock.
#pragma once

#include "capi/world.h"

namespace tern::capi::short_calls {

bool Send(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
bool Recv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Status* status);

bool Isend(World& world, const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
           MPI_Request* request);
bool Irecv(World& world, void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
           MPI_Request* request);
bool Wait(World& world, MPI_Request* request, MPI_Status* status);
bool Test(World& world, MPI_Request* request, int* flag, MPI_Status* status);
bool Waitall(World& world, int count, MPI_Request* array_of_requests, MPI_Status* array_of_statuses);

bool Put(World& world, const void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,
         Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Win win);
bool Get(World& world, void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,
         Aint target_disp, Count target_count, MPI_Datatype target_datatype, MPI_Win win);
bool Win_flush(World& world, int rank, MPI_Win win);
bool Win_flush_local(World& world, int rank, MPI_Win win);

}  // namespace tern::capi::short_calls
