// Communicators: looking, naming, hints, freeing (MPI 5.0 sections 7.4.1, 7.4.3, 7.4.4, 7.6.1, 7.8, 11.10.4).
// Making them is in comm_create.cc and comm_split_type.cc.
#include <cstring>

#include "capi/checks.h"
#include "capi/comm_common.h"
#include "capi/memory_kinds.h"
#include "impl.gen.h"
#include "p2p/core/endpoint.h"

namespace tern::capi {

namespace {

void drop_handler(Object& object) {
  auto& handler = static_cast<ErrorHandler&>(object);
  if (handler.drop_ref()) delete &handler;
}

/// The info keys of 7.4.4 that every communicator takes, and whether their value is a boolean.
struct Hint {
  const char* key;
  const char* otherwise;  ///< null: any value, none by default
};
constexpr Hint kHints[] = {
    {"mpi_assert_no_any_tag", "false"},
    {"mpi_assert_no_any_source", "false"},
    {"mpi_assert_exact_length", "false"},
    {"mpi_assert_allow_overtaking", "false"},
    {"mpi_assert_strict_persistent_collective_ordering", "false"},
    {"mpi_assert_memory_alloc_kinds", nullptr},
    {"tern_rendezvous", nullptr},
    {"tern_reproducible", "false"},
};

// How its large messages are sent: tuple queues need a path to a member that has them.
std::string rendezvous_in_use(const Communicator& comm) {
  const std::string& mode = comm.environment().p2p.tunables().rendezvous;
  const bool wanted = mode == "tupleq" || comm.info.find("tern_rendezvous");
  for (int rank = 0; wanted && rank < comm.peer_group().size(); ++rank) {
    Path* path = comm.environment().p2p.endpoints().path_to(comm.peer(rank));
    if (path && path->tuple_queues()) return "tupleq";
  }
  return mode == "tupleq" ? "customised" : mode;
}

}  // namespace

void set_error_handler(Communicator& comm, ErrorHandler* handler) {
  if (handler) handler->add_ref();
  if (comm.error_handler) drop_handler(*comm.error_handler);
  comm.error_handler = handler;
  comm.drop_error_handler = drop_handler;
}

void derive_from_session(Communicator& comm, int32_t session) {
  comm.from_session = session;
  if (session == 0) return;
  comm.group().session = session;
  if (comm.is_inter()) comm.remote_group().session = session;
}

Communicator* hand_out(const Communicator& parent, Ref<Communicator>& fresh) {
  if (!fresh) return nullptr;
  set_error_handler(*fresh, static_cast<ErrorHandler*>(parent.error_handler));
  derive_from_session(*fresh, parent.from_session);
  return fresh.release();
}

void take_hints(Communicator& comm, const Info* info) {
  if (!info) return;
  for (const Hint& hint : kHints) {
    const std::string* value = info->find(hint.key);
    if (!value) continue;
    bool fits = !hint.otherwise || *value == "true" || *value == "false";
    if (std::strcmp(hint.key, "tern_rendezvous") == 0) fits = *value == "tupleq";
    if (std::strcmp(hint.key, "mpi_assert_memory_alloc_kinds") == 0) fits = supports_memory_kinds(*value);
    // What its messages go by cannot be changed (7.4.4: such hints may be ignored).
    if (std::strcmp(hint.key, "mpi_assert_no_any_tag") == 0 && comm.is_spread_by_tag()) fits = *value == "true";
    if (fits) comm.info.set(hint.key, *value);
  }
  MessageHints hints;
  hints.no_any_source = comm.info.flag("mpi_assert_no_any_source");
  hints.no_any_tag = comm.info.flag("mpi_assert_no_any_tag");
  hints.exact_length = comm.info.flag("mpi_assert_exact_length");
  hints.allow_overtaking = comm.info.flag("mpi_assert_allow_overtaking");
  hints.tuple_queues = comm.info.find("tern_rendezvous") != nullptr;
  comm.set_message_hints(hints);
  comm.reproducible = comm.info.flag("tern_reproducible");
}

Error intra_only(const Communicator& comm) {
  if (!comm.is_inter()) return {};
  return Error(ErrorClass::comm, "the communicator is an intercommunicator; this function needs an intracommunicator");
}

namespace body {

Error Comm_size(Call& call, Communicator& comm, int& size) {
  size = comm.size();
  return {};
}

Error Comm_rank(Call& call, Communicator& comm, int& rank) {
  rank = comm.rank();
  return {};
}

Error Comm_test_inter(Call& call, Communicator& comm, bool& flag) {
  flag = comm.is_inter();
  return {};
}

Error Comm_remote_size(Call& call, Communicator& comm, int& size) {
  if (!comm.is_inter())
    return Error(ErrorClass::comm, "the communicator is an intracommunicator, which has no remote group");
  size = comm.remote_size();
  return {};
}

Error Comm_group(Call& call, Communicator& comm, Group*& group) {
  group = Ref<Group>::share(&comm.group()).release();
  return {};
}

Error Comm_remote_group(Call& call, Communicator& comm, Group*& group) {
  if (!comm.is_inter())
    return Error(ErrorClass::comm, "the communicator is an intracommunicator, which has no remote group");
  group = Ref<Group>::share(&comm.remote_group()).release();
  return {};
}

Error Comm_compare(Call& call, Communicator& comm1, Communicator& comm2, int& result) {
  if (&comm1 == &comm2) {
    result = MPI_IDENT;
    return {};
  }
  result = MPI_UNEQUAL;
  if (comm1.is_inter() != comm2.is_inter()) return {};
  Comparison local = comm1.group().compare(comm2.group());
  Comparison remote = comm1.is_inter() ? comm1.remote_group().compare(comm2.remote_group()) : local;
  if (local == Comparison::unequal || remote == Comparison::unequal) return {};
  bool same_order = local == Comparison::identical && remote == Comparison::identical;
  result = same_order ? MPI_CONGRUENT : MPI_SIMILAR;
  return {};
}

Error Comm_set_name(Call& call, Communicator& comm, const char* comm_name) {
  comm.name.assign(comm_name, strnlen(comm_name, MPI_MAX_OBJECT_NAME - 1));
  return {};
}

Error Comm_get_name(Call& call, Communicator* comm, char* comm_name, int& resultlen) {
  const std::string name = comm ? comm->name : "MPI_COMM_NULL";
  memcpy(comm_name, name.c_str(), name.size() + 1);
  resultlen = int(name.size());
  return {};
}

Error Comm_set_info(Call& call, Communicator& comm, Info& info) {
  take_hints(comm, &info);
  return {};
}

Error Comm_get_info(Call& call, Communicator& comm, Info*& info_used) {
  Ref<Info> info = comm.info.dup();
  for (const Hint& hint : kHints)
    if (hint.otherwise && !info->find(hint.key)) info->set(hint.key, hint.otherwise);
  info->set("tern_rendezvous", rendezvous_in_use(comm));
  if (comm.environment().p2p.tunables().reproducible != 0) info->set("tern_reproducible", "true");
  info->set("mpi_memory_alloc_kinds", memory_kinds_of(call.world(), comm.from_session));
  info_used = info.release();
  return {};
}

// Local, as the standard expects: what is still under way holds the object. Its messages need only its
// context.
Error Comm_free(Call& call, Communicator*& comm) {
  if (comm->handle < 4096)
    return Error(ErrorClass::comm, "argument 'comm' is " + comm->name + ", which cannot be freed");
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->uses_alone(*comm);
  if (Error error = comm->attributes.clear(*comm)) return error;
  call.blame(static_cast<Communicator*>(nullptr));
  call.world().buffers.comms.erase(comm);
  if (comm == call.world().parent) call.world().parent = nullptr;
  Ref<Communicator>::adopt(comm).reset();
  comm = nullptr;
  return {};
}

}  // namespace body
}  // namespace tern::capi
