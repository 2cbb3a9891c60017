// Makes an intercommunicator of two groups of different jobs (MPI 5.0, 11.9.2). Collective over each group; the roots
// communicate through a port.
//
//   accepting group            roots                connecting group
//   describe, gather  ->  root     <--- members ---    root  <-  describe, gather
//                         root     --- members, context --->
//   broadcast         <-  root                         root  ->  broadcast
//   meet, agree       ->  root     <---- ready ---->   root  <-  meet, agree
//
// The last step is needed because a rank rejects callers that it has not met.
// Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <memory>

#include "base/error.h"
#include "coll/create/create.h"
#include "process/jobs/other_jobs.h"
#include "process/jobs/port_link.h"
#include "process/jobs/ports.h"

namespace tern {

struct Meeting {
  const create::Maker& maker;
  OtherJobs& jobs;
  Ports& ports;
  Clock& clock;
  Communicator& comm;  ///< an intracommunicator: this side
  int root;
  bool accepts;
  uint64_t deadline_ns;  ///< for each answer of the other root
};

/// Two groups, of several jobs, whose leaders can talk to each other: the ranks of each may not know the other's.
struct Strangers {
  const create::Maker& maker;
  OtherJobs& jobs;
  Communicator& comm;  ///< an intracommunicator: this side
  int leader;
  const create::Channel* bridge;  ///< to the other leader; read at the leader only, as are the next two
  int far_leader;                 ///< its rank there
  PeerId far;
};

/// Makes the ranks of both groups known to each other (before MPI_Intercomm_create). The same error class at all ranks
/// of a group. A rank is known at the other side only when that side has returned, too.
Error introduce(const Strangers& strangers);

/// At the root `link` is the connection, or null with the reason in `trouble`; at other ranks both are ignored. The
/// same error class at all ranks of the group.
Error meet(const Meeting& meeting, std::unique_ptr<PortLink> link, Error trouble, Ref<Communicator>& result);

}  // namespace tern
