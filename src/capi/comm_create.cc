// Making communicators: the bodies of MPI 5.0 sections 7.4.2 and 7.6.2 (split_type is in comm_split_type.cc),
// and disconnecting (11.10.4). What travels is in coll/create/.
#include <algorithm>
#include <span>

#include "capi/comm_common.h"
#include "capi/jobs.h"
#include "capi/requests.h"
#include "impl.gen.h"

namespace tern::capi::body {

namespace {

/// By all members, of a call that takes an info: if all of them promise to receive no tag but named ones, the messages
/// of different tags need not wait for each other.
Error agree_on_promises(Call& call, Communicator& comm, const Info* info) {
  if (!comm.has_engine()) return {};  // nowhere, then
  const uint64_t promised = info && info->flag("mpi_assert_no_any_tag");
  create::Words all;
  if (Error error = create::allgather(maker_of(call), comm, std::span(&promised, 1), all)) return error;
  if (std::all_of(all.begin(), all.end(), [](uint64_t one) { return one != 0; })) comm.spread_by_tag();
  return {};
}

/// Duplicates with everything a duplicate inherits. The copy callbacks run before anything is sent; when one fails,
/// this process still takes part, so that the others get theirs. `hinted`: every member has an info, or none.
Error duplicate(Call& call, Communicator& comm, bool hinted, const Info* info, Communicator*& newcomm,
                Request** request) {
  Ref<Communicator> fresh;
  Request* pending = nullptr;
  AttributeCache copies;
  Error copying = comm.attributes.copy_to(comm, copies);
  if (request) {
    pending = create::start_duplicate(maker_of(call), comm, fresh);
  } else {
    if (Error error = create::duplicate(maker_of(call), comm, fresh)) return error;
    if (Error error = hinted ? agree_on_promises(call, *fresh, info) : Error()) return error;
  }
  if (copying) {
    if (pending) pending->release();
    return copying;
  }
  fresh->attributes.take(copies);
  take_hints(*fresh, info);
  newcomm = hand_out(comm, fresh);
  if (request) *request = pending;
  return {};
}

/// The error handler that a creating call names, and the session of the group it comes from.
void attach_handler_and_info(Communicator* comm, const Group& from, ErrorHandler& handler, const Info* info) {
  if (!comm) return;
  set_error_handler(*comm, &handler);
  derive_from_session(*comm, from.session);
  take_hints(*comm, info);
}

Error check_leader(const char* argument, int leader, int size) {
  if (leader >= 0 && leader < size) return {};
  return Error(ErrorClass::rank, "argument '" + std::string(argument) + "' is " + std::to_string(leader) +
                                     ", but the group has ranks 0.." + std::to_string(size - 1) +
                                     ". Pass a rank in range.");
}

Error check_string_tag(const char* tag) {
  if (std::char_traits<char>::length(tag) < MPI_MAX_STRINGTAG_LEN) return {};
  return Error(ErrorClass::arg, "argument 'stringtag' is longer than MPI_MAX_STRINGTAG_LEN - 1 characters");
}

Error check_handler(const ErrorHandler& handler) {
  if (handler.fits(ErrorHandler::Kind::communicator)) return {};
  return Error(ErrorClass::errhandler, "argument 'errhandler' was not made by MPI_Comm_create_errhandler");
}

}  // namespace

Error Comm_dup(Call& call, Communicator& comm, Communicator*& newcomm) {
  return duplicate(call, comm, false, nullptr, newcomm, nullptr);
}

Error Comm_dup_with_info(Call& call, Communicator& comm, Info* info, Communicator*& newcomm) {
  return duplicate(call, comm, true, info, newcomm, nullptr);
}

Error Comm_idup(Call& call, Communicator& comm, Communicator*& newcomm, Request*& request) {
  return duplicate(call, comm, false, nullptr, newcomm, &request);
}

Error Comm_idup_with_info(Call& call, Communicator& comm, Info* info, Communicator*& newcomm, Request*& request) {
  return duplicate(call, comm, false, info, newcomm, &request);
}

Error Comm_create(Call& call, Communicator& comm, Group& group, Communicator*& newcomm) {
  Ref<Communicator> fresh;
  if (Error error = create::create(maker_of(call), comm, group, fresh)) return error;
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Comm_create_group(Call& call, Communicator& comm, Group& group, int tag, Communicator*& newcomm) {
  if (Error error = intra_only(comm)) return error;
  Ref<Communicator> fresh;
  if (Error error = create::create_group(maker_of(call), comm, group, tag, fresh)) return error;
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Comm_create_from_group(Call& call, Group& group, const char* stringtag, Info* info, ErrorHandler& errhandler,
                             Communicator*& newcomm) {
  if (Error error = check_string_tag(stringtag)) return error;
  if (Error error = check_handler(errhandler)) return error;
  Ref<Communicator> fresh;
  if (Error error = create::create_from_group(maker_of(call), group, stringtag, fresh)) return error;
  if (Error error = fresh ? agree_on_promises(call, *fresh, info) : Error()) return error;
  newcomm = fresh.release();
  attach_handler_and_info(newcomm, group, errhandler, info);
  return {};
}

Error Comm_split(Call& call, Communicator& comm, int color, int key, Communicator*& newcomm) {
  if (color < 0 && color != MPI_UNDEFINED)
    return Error(ErrorClass::arg,
                 "argument 'color' is " + std::to_string(color) + ". Pass 0 or more, or MPI_UNDEFINED.");
  Ref<Communicator> fresh;
  int64_t wide = color == MPI_UNDEFINED ? create::kNoColor : color;
  if (Error error = create::split(maker_of(call), comm, wide, key, fresh)) return error;
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Intercomm_create(Call& call, Communicator& local_comm, int local_leader, Communicator* peer_comm,
                       int remote_leader, int tag, Communicator*& newintercomm) {
  if (Error error = intra_only(local_comm)) return error;
  if (Error error = check_leader("local_leader", local_leader, local_comm.size())) return error;
  if (local_comm.rank() == local_leader) {
    if (!peer_comm)
      return Error(ErrorClass::comm, "argument 'peer_comm' is no communicator, but this process is the leader");
    if (Error error = check_leader("remote_leader", remote_leader, peer_comm->peer_group().size())) return error;
    if (!peer_comm->is_inter() && peer_comm->rank() == remote_leader)
      return Error(ErrorClass::rank,
                   "argument 'remote_leader' is this process itself. Name the leader of the other group.");
  }
  Ref<Communicator> fresh;
  const create::Maker maker = maker_of(call);
  bool several_jobs = false;
  if (Error error =
          create::create_inter(maker, local_comm, local_leader, peer_comm, remote_leader, tag, fresh, &several_jobs))
    return error;
  if (several_jobs) {
    if (Error error = introduce_jobs(call, local_comm, local_leader, peer_comm, remote_leader, tag)) return error;
    if (Error error = create::create_inter(maker, local_comm, local_leader, peer_comm, remote_leader, tag, fresh))
      return error;
  }
  newintercomm = hand_out(local_comm, fresh);
  return {};
}

Error Intercomm_create_from_groups(Call& call, Group& local_group, int local_leader, Group* remote_group,
                                   int remote_leader, const char* stringtag, Info* info, ErrorHandler& errhandler,
                                   Communicator*& newintercomm) {
  if (Error error = check_string_tag(stringtag)) return error;
  if (Error error = check_handler(errhandler)) return error;
  if (local_group.size() == 0) return {};
  if (Error error = check_leader("local_leader", local_leader, local_group.size())) return error;
  if (local_group.rank() == local_leader) {
    if (!remote_group)
      return Error(ErrorClass::group, "argument 'remote_group' is no group, but this process is the leader");
    if (remote_group->size() > 0) {
      if (Error error = check_leader("remote_leader", remote_leader, remote_group->size())) return error;
      if (!remote_group->disjoint(local_group))
        return Error(ErrorClass::group,
                     "the local and the remote group have a process in common; they must be disjoint");
    }
  }
  Ref<Communicator> fresh;
  if (Error error = create::create_inter_from_groups(maker_of(call), local_group, local_leader, remote_group,
                                                     remote_leader, stringtag, fresh))
    return error;
  newintercomm = fresh.release();
  attach_handler_and_info(newintercomm, local_group, errhandler, info);
  return {};
}

Error Intercomm_merge(Call& call, Communicator& intercomm, bool high, Communicator*& newintracomm) {
  if (!intercomm.is_inter())
    return Error(ErrorClass::comm, "argument 'intercomm' is an intracommunicator. Pass an intercommunicator.");
  Ref<Communicator> fresh;
  if (Error error = create::merge(maker_of(call), intercomm, high, fresh)) return error;
  newintracomm = hand_out(intercomm, fresh);
  return {};
}

// As MPI_Comm_free, once everything on the communicator is complete: requests that the user still has or has freed, and
// buffered messages. That is a local matter, since both ends of a communication wait for their own part.
Error Comm_disconnect(Call& call, Communicator*& comm) {
  if (comm->handle < 4096)
    return Error(ErrorClass::comm, "argument 'comm' is " + comm->name + ", which cannot be disconnected");
  World& world = call.world();
  Communicator* leaving = comm;
  call.process().progress().wait_until([&] {
    if (leaving->freed_requests != 0 || buffer_for(world, *leaving).holds(*leaving)) return false;
    bool pending = world.buffers.rank.holds(*leaving);
    world.handles.requests.for_each([&](Request& r) { pending |= r.error_object == leaving && !r.complete(); });
    leaving->for_each_engine([&](Engine& engine) {
      world.requests_of(engine).for_each(
          [&](Request& r) { pending |= !r.complete() && engine.p2p.context_of(r) == leaving->context(); });
    });
    return !pending;
  });
  return Comm_free(call, comm);
}

}  // namespace tern::capi::body
