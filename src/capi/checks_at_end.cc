// TERN_CHECK at MPI_Finalize: what the program has left behind.
#include <fmt/format.h>

#include <map>
#include <string>

#include "capi/checks.h"
#include "capi/world.h"
#include "process/process.h"

namespace tern::capi {

// "3 requests are not completed: 2 of MPI_Isend at main (a.c:7), 1 of MPI_Irecv at main (a.c:8)".
template <typename Table, typename Wanted>
void Checks::report_left(const Table& table, const char* one, const char* many, const char* what, Wanted wanted) {
  size_t count = 0;
  std::map<std::string, size_t> places;
  table.for_each([&](const auto& object) {
    if (!wanted(object)) return;
    ++count;
    const auto found = creators_.find({&table, uintptr_t(object.handle)});
    ++places[found == creators_.end() ? "an unknown place" : found->second];
  });
  if (count == 0) return;
  std::string text = fmt::format("at MPI_Finalize {} {} {}: ", count, count == 1 ? one : many, what);
  constexpr size_t kMost = 8;  // places in a line that can be read
  size_t shown = 0;
  for (const auto& [place, times] : places) {
    if (shown == kMost) {
      text += ", ...";
      break;
    }
    text += fmt::format("{}{} of {}", shown++ == 0 ? "" : ", ", times, place);
  }
  report(text);
}

// A message of a session may be received after MPI_Finalize, one of a session that has not begun here, too (11.3).
bool Checks::may_be_of_session(uint64_t context) const {
  if (!world_.models.sessions_used) return false;
  const auto same = [&](const Communicator& comm) { return comm.context() >> 2 == context >> 2; };
  bool of_world = same(world_.process->world()) || same(world_.process->self());
  world_.handles.comms.for_each([&](const Communicator& comm) { of_world |= comm.from_session == 0 && same(comm); });
  return !of_world;
}

void Checks::report_unreceived() {
  for (const PendingMessage& pending : world_.process->p2p().report().pending()) {
    if (pending.kind != PendingMessage::Kind::message || !pending.of_user) continue;
    if (may_be_of_session(pending.context)) continue;
    report(fmt::format("at MPI_Finalize a message was never received: {}", pending.text()));
  }
}

Error Checks::finalize() {
  world_.call_name = "MPI_Finalize";
  threads_.check_finalize();
  messages_.finalize();
  if (Error error = collective(world_.process->world())) return error;
  // What others have sent before their MPI_Finalize is on its way at most.
  constexpr uint64_t kLook_ns = 5'000'000;
  Process& process = *world_.process;
  const uint64_t end_ns = process.clock().now_ns() + kLook_ns;
  while (process.clock().now_ns() < end_ns) process.progress().look();
  report_unreceived();
  threads_.check_count();
  // Beside an open session the World Model owns only what was made from its communicators and groups.
  const bool session_open = world_.running > 1;
  report_left(world_.handles.comms, "communicator is", "communicators are", "not freed", [&](const Communicator& comm) {
    // The parents' communicator was made without being asked for.
    return &comm != world_.parent && !(session_open && comm.from_session != 0);
  });
  report_left(world_.handles.groups, "group is", "groups are", "not freed",
              [&](const Group& group) { return !(session_open && group.session != 0); });
  if (session_open) return {};
  report_left(world_.handles.requests, "request is", "requests are", "not completed",
              [](const Request& request) { return !request.persistent() || request.active(); });
  report_left(world_.handles.requests, "persistent request is", "persistent requests are", "not freed",
              [](const Request& request) { return request.persistent() && !request.active(); });
  const auto all = [](const auto&) { return true; };
  report_left(world_.handles.messages, "matched message is", "matched messages are", "not received", all);
  report_left(world_.handles.windows, "window is", "windows are", "not freed", all);
  report_left(world_.handles.files, "file is", "files are", "not closed", all);
  // Some datatypes are predefined though they have no name (19.1.9).
  report_left(world_.handles.types, "datatype is", "datatypes are", "not freed",
              [](const Datatype& type) { return !type.is_predefined(); });
  report_left(world_.handles.ops, "operator is", "operators are", "not freed", all);
  // These may be freed after MPI_Finalize, too (11.4.1): worth a line, but no error that ends the job.
  if (!fatal_) report_left(world_.handles.infos, "info object is", "info objects are", "not freed", all);
  return {};
}

}  // namespace tern::capi
