// The Sessions Model. Source: MPI 5.0 section 11.3. Process sets: mpi://WORLD and mpi://SELF.
#include <strings.h>

#include <cstring>
#include <iterator>

#include "capi/environment.h"
#include "capi/memory_kinds.h"
#include "capi/requests.h"
#include "fmt/format.h"
#include "impl.gen.h"
#include "process/launch/start_info.h"

namespace tern::capi {

namespace {

constexpr struct {
  const char* name;
  int level;
} kThreadLevels[] = {{"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
                     {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
                     {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
                     {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE}};

constexpr const char* kSets[] = {"mpi://WORLD", "mpi://SELF"};

/// The members of a process set. Groups are immutable, so the predefined communicators' serve. The name is a URI, whose
/// scheme and authority may be written in any case.
Error find_set(Call& call, const char* name, Group*& group) {
  Process& process = call.process();
  if (strcasecmp(name, kSets[0]) == 0) {
    group = &process.world().group();
  } else if (strcasecmp(name, kSets[1]) == 0) {
    group = &process.self().group();
  } else {
    return Error(ErrorClass::arg, fmt::format("argument 'pset_name' is '{}', but the process sets here are "
                                              "mpi://WORLD and mpi://SELF",
                                              name));
  }
  return {};
}

}  // namespace

const char* thread_level_name(int level) {
  for (auto& entry : kThreadLevels) {
    if (entry.level == level) return entry.name;
  }
  return "MPI_THREAD_SINGLE";
}

Session* session_of(World& world, Communicator& comm) {
  return comm.from_session ? world.handles.sessions.find(uintptr_t(comm.from_session)) : nullptr;
}

namespace body {

Error Session_init(Call& call, Info* info, ErrorHandler& errhandler, Session*& session) {
  World& world = call.world();
  auto fresh = std::make_unique<Session>(Ref<ErrorHandler>::share(&errhandler));
  Error error;
  if (!errhandler.fits(ErrorHandler::Kind::session)) {
    return Error(ErrorClass::errhandler, "argument 'errhandler' was not made by MPI_Session_create_errhandler");
  }
  int level = MPI_THREAD_MULTIPLE;  // the standard advises against a lower default (11.3.1)
  if (const std::string* wanted = info ? info->find("thread_level") : nullptr) {
    level = -1;
    for (auto& entry : kThreadLevels) {
      if (*wanted == entry.name) level = entry.level;
    }
    if (level < 0) {
      error = Error(ErrorClass::info_value, fmt::format("the info key 'thread_level' has the value '{}'. Use "
                                                        "MPI_THREAD_SINGLE, _FUNNELED, "
                                                        "_SERIALIZED or _MULTIPLE.",
                                                        *wanted));
    }
  }
  if (!error) {
    world.models.sessions_used = true;
    error = world.start(level);
  }
  if (error) {
    // The handler of the call hears of it (11.3.1), so the half-made session must live until then.
    world.models.failed_session = std::move(fresh);
    call.blame(world.models.failed_session.get());
    return error;
  }
  fresh->info.set("thread_level", thread_level_name(std::max(level, world.models.thread_level)));
  // "Takes precedence over a value supplied as an argument to an MPI startup mechanism" (11.4.3).
  const StartInfo start = start_info();
  const std::string* kinds = info ? info->find("mpi_memory_alloc_kinds") : nullptr;
  if (!kinds) kinds = find_key(start, "mpi_memory_alloc_kinds");
  fresh->info.set("mpi_memory_alloc_kinds", supported_memory_kinds(kinds));
  session = fresh.release();
  return {};
}

Error Session_finalize(Call& call, Session*& session) {
  World& world = call.world();
  if (session->buffer.attached()) session->buffer.flush(call.process().progress());
  Error error = world.stop();
  // The call may still have to ask the session's error handler.
  world.models.failed_session.reset(session);
  if (!error) call.blame(static_cast<Session*>(nullptr));
  session = nullptr;
  return error;
}

Error Session_get_num_psets(Call& call, Session& session, Info* info, int& npset_names) {
  npset_names = static_cast<int>(std::size(kSets));
  return {};
}

Error Session_get_nth_pset(Call& call, Session& session, Info* info, int n, int& pset_len, char* pset_name) {
  if (n < 0 || static_cast<size_t>(n) >= std::size(kSets)) {
    return Error(ErrorClass::arg,
                 fmt::format("argument 'n' is {}, but there are {} process sets", n, std::size(kSets)));
  }
  if (pset_len < 0) return Error(ErrorClass::arg, fmt::format("argument 'pset_len' is {}", pset_len));
  if (pset_len > 0) {
    if (!pset_name) return Error(ErrorClass::arg, "argument 'pset_name' is a null pointer, but 'pset_len' is not 0");
    size_t length = std::min(std::strlen(kSets[n]), static_cast<size_t>(pset_len) - 1);
    std::memcpy(pset_name, kSets[n], length);
    pset_name[length] = '\0';
  }
  pset_len = static_cast<int>(std::strlen(kSets[n])) + 1;
  return {};
}

Error Session_get_info(Call& call, Session& session, Info*& info_used) {
  info_used = session.info.dup().release();
  return {};
}

Error Session_get_pset_info(Call& call, Session& session, const char* pset_name, Info*& info) {
  Group* group = nullptr;
  if (Error error = find_set(call, pset_name, group)) return error;
  info = new Info;
  info->set("mpi_size", std::to_string(group->size()));
  return {};
}

}  // namespace body
}  // namespace tern::capi
