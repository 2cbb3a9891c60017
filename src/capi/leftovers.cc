#include "capi/leftovers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>

#include "capi/call.h"
#include "capi/call_site.h"
#include "process/process.h"

namespace tern::capi {
namespace {

constexpr const char* kWhere = " (TERN_CHECK=1 names the places)";

// Another library may have called it for the program. (Where there are sessions the rank ends at exit.)
std::string place_of_finalize(const World& world) {
  char place[200];
  if (world.models.sessions_used || world.simulated() ||
      !call_sites().describe(walk_stack(), false, place, sizeof place) || place[0] == '\0')
    return {};
  return fmt::format(". MPI_Finalize was called at {}", place);
}

}  // namespace

void tell_of_requests(const World& world) {
  const Log& log = world.process->log();
  if (world.models.main_thread != std::this_thread::get_id())
    log.warn("MPI_Finalize is called by another thread than MPI_Init (MPI 5.0, 11.6.2)");
  if (world.running > 1) return;  // a session that goes on may own them (11.3)
  size_t left = 0;
  const auto count = [&](const Request& request) { left += !request.persistent() || request.active(); };
  world.handles.requests.for_each(count);
  if (Engines* engines = world.process->engines()) {
    engines->close();
    for (const auto& requests : world.handles.engine_requests) requests->for_each(count);
  }
  if (left == 0) return;
  log.warn(fmt::format("at MPI_Finalize {} not completed: MPI_Wait or MPI_Test was not called for {}{}",
                       left == 1 ? "1 request is" : fmt::format("{} requests are", left), left == 1 ? "it" : "them",
                       kWhere));
}

void tell_of_messages(World& world) {
  // The last ones may have come since this rank has seen that the others are there. (Ranks that are gone by now have
  // said so.)
  world.process->progress().poll_all();
  if (world.counted().unexpected_queue == 0) return;
  std::string first;
  size_t messages = 0;
  for (const PendingMessage& pending : world.process->p2p().report().pending()) {
    if (pending.kind != PendingMessage::Kind::message) continue;
    const bool collective = std::string_view(pending.communicator).ends_with(" (collective)");
    if (!pending.of_user && !collective) continue;
    if (++messages > 1) continue;
    first = pending.of_user
                ? "a message was never received: " + pending.text() + kWhere
                : fmt::format("rank {} has called a collective operation on {} that this rank has not called{}",
                              pending.source, pending.communicator.substr(0, pending.communicator.find(" (")), kWhere);
  }
  if (messages == 0) return;
  if (messages > 1) first += fmt::format(". There are {} more", messages - 1);
  world.process->log().warn("at MPI_Finalize " + first + place_of_finalize(world));
}

InCollective::InCollective(World& world, const Communicator& comm) : world_(world), comm_(comm) {
  auto& inside = world.collectives.inside;
  if (!world.collectives.told && std::find(inside.begin(), inside.end(), &comm) != inside.end()) {
    world.collectives.told = true;
    world.process->log().warn(
        fmt::format("two threads are in collective operations of {} at the same time. Let one thread at a time call "
                    "them, or give each thread a communicator of its own (MPI 5.0, 11.6.2){}",
                    describe(comm), kWhere));
  }
  inside.push_back(&comm);
}

InCollective::~InCollective() {
  auto& inside = world_.collectives.inside;
  inside.erase(std::find(inside.begin(), inside.end(), &comm_));
}

}  // namespace tern::capi
