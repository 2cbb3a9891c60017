// Making communicators from communicators and groups. Source: MPI 5.0 sections 7.4.2 and 7.6.2.
//
// Agreement is short because context ids need none (comm/context.h): some member makes the id, and the
// message that carries whatever else must be known (colours, groups) carries it along.
//
//   who talks                      through                                        matched by
//   all of a communicator          Plane::internal, its local intracommunicator   next_collective_tag
//   the leaders of an intercomm.   Plane::internal of the intercommunicator       next_collective_tag
//   some of a communicator         Plane::tagged                                  the user's tag
//   a group without communicator   a context hashed from group and string tag     0
//
// Every intercommunicator has an intracommunicator of its local group (Communicator::local_intra) and knows
// which of its two sides is the low one: the side whose leader proposed the smaller (never equal) context id
// at its creation.
//
// What new communicators inherit (attributes, error handlers, hints) is the caller's business, but for
// topologies, which `duplicate` copies. Results are null where the standard says MPI_COMM_NULL. Errors leave
// them null. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <string_view>

#include "coll/create/channel.h"
#include "comm/communicator.h"

namespace tern::create {

/// MPI_Comm_dup.
Error duplicate(const Maker& maker, Communicator& comm, Ref<Communicator>& result);
/// MPI_Comm_idup: `result` exists at once and may be used when the request is complete.
Request* start_duplicate(const Maker& maker, Communicator& comm, Ref<Communicator>& result);

/// MPI_Comm_create, also of intercommunicators.
Error create(const Maker& maker, Communicator& comm, Group& group, Ref<Communicator>& result);
/// MPI_Comm_create_group; null for a caller outside `group`.
Error create_group(const Maker& maker, Communicator& comm, Group& group, int tag, Ref<Communicator>& result);
/// MPI_Comm_create_from_group.
Error create_from_group(const Maker& maker, Group& group, std::string_view string_tag, Ref<Communicator>& result);

/// MPI_Comm_split, also of intercommunicators; colour kUndefined gives null. Colours are 64 bits wide so that
/// callers can make them from more than the user's.
Error split(const Maker& maker, Communicator& comm, int64_t color, int key, Ref<Communicator>& result);
inline constexpr int64_t kNoColor = kUndefined;

/// MPI_Intercomm_create; `peer_comm` is read at the leader only (null elsewhere). `several_jobs`: if the members are of
/// several jobs, nothing is made and this becomes true at all members: they must be introduced first. Null: they have
/// been.
Error create_inter(const Maker& maker, Communicator& local, int local_leader, Communicator* peer_comm,
                   int remote_leader, int tag, Ref<Communicator>& result, bool* several_jobs = nullptr);
/// Between its leaders, at a leader.
Channel bridge_between(const Maker& maker, Communicator& peer_comm, int tag);
/// MPI_Intercomm_create_from_groups; `remote` is read at the leader only (null elsewhere).
Error create_inter_from_groups(const Maker& maker, Group& local, int local_leader, Group* remote, int remote_leader,
                               std::string_view string_tag, Ref<Communicator>& result);
/// MPI_Intercomm_merge.
Error merge(const Maker& maker, Communicator& inter, bool high, Ref<Communicator>& result);

/// A communicator of `group` with its context known: no messages. For those (topologies) that have one to
/// spare.
/// `network_engines`: as Communicator.
Ref<Communicator> make_intra(const Maker& maker, uint64_t context, Ref<Group> group, uint32_t network_engines = 0);

/// Every member's words, by rank; intracommunicators only. For creation with more to agree on (distributed
/// graphs).
Error allgather(const Maker& maker, Communicator& intra, std::span<const uint64_t> mine, Words& all);
/// Words for each member, by rank, sent to it; what came in, by rank. Intracommunicators only. A row may be
/// empty.
Error exchange_all(const Maker& maker, Communicator& intra, const std::vector<Words>& outgoing,
                   std::vector<Words>& incoming);

}  // namespace tern::create
