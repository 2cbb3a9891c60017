// Functions that the calls that connect jobs share (MPI 5.0, 11.8 to 11.10). Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "capi/call.h"
#include "process/jobs/port_link.h"

namespace tern::capi {

/// One side of a meeting: collective over `comm`; what `link` and `trouble` are: process/jobs/meeting.h.
struct JobMeeting {
  Communicator& comm;
  int root;
  bool accepts;
  uint64_t deadline_ns;
};
Error meet_job(Call& call, const JobMeeting& side, std::unique_ptr<PortLink> link, Error trouble,
               Ref<Communicator>& result);

/// Before MPI_Intercomm_create with groups of several jobs: collective over both groups. `peer_comm` is read at the
/// leader only.
Error introduce_jobs(Call& call, Communicator& local, int leader, Communicator* peer_comm, int remote_leader, int tag);

/// Of the info key `timeout`, in seconds, else TERN_PORT_TIMEOUT_S.
uint64_t port_deadline_ns(Call& call, const Info* info);
/// Error: the world knows no other jobs (a simulated one).
Error can_meet_jobs(Call& call);
/// Waits until another job has called that port. Null, with `trouble`: none has in time.
std::unique_ptr<PortLink> await_caller(Call& call, uint64_t port, uint64_t deadline_ns, Error& trouble);
/// A process that was spawned meets its parents: collective over MPI_COMM_WORLD, in its initialisation.
Error meet_parents(Call& call);

}  // namespace tern::capi
