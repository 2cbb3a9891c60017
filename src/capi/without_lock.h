// Short calls: what threads do with a message engine alone, without the rank's lock (p2p/engines.h). Entry points try
// them first, with MPI_THREAD_MULTIPLE. True: all that the call has to do is done. False: nothing has happened, and the
// call takes the ordinary way, which also finds what is wrong with its arguments.
// Thread rule: any thread, without the rank's lock.
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

}  // namespace tern::capi::short_calls
