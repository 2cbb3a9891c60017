#include "rma/context.h"

#include "p2p/core/endpoint.h"

namespace tern::rma {

std::string WindowContext::describe() const {
  return name.empty() ? "window " + std::to_string(id() >> 2) : "window '" + name + "'";
}

Error WindowContext::sync_error(const std::string& text) const {
  return Error(ErrorClass::rma_sync, describe() + ": " + text);
}

Error WindowContext::check_rank(int rank) const {
  if (rank >= 0 && rank < comm->size()) return {};
  return Error(ErrorClass::rank, describe() + ": rank " + std::to_string(rank) + " is not between 0 and " +
                                     std::to_string(comm->size() - 1));
}

void WindowContext::nudge(int rank) const {
  environment.endpoints().post(environment.endpoints().at(comm->peer(rank)), header(wire::kWindowNudge));
}

}  // namespace tern::rma
