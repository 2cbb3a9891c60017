#include "rma/operations.h"

#include <algorithm>

#include "base/assert.h"
#include "rma/check_operation.h"

namespace tern::rma {

Target& Operations::target(int rank) {
  if (targets_.empty()) targets_.resize(size_t(context_.comm->size()));
  TERN_DEBUG_ASSERT(size_t(rank) < targets_.size());
  std::unique_ptr<Target>& place = targets_[size_t(rank)];
  if (!place) {
    Endpoints& endpoints = context_.environment.endpoints();
    const PeerId peer = context_.comm->peer(rank);
    place = std::make_unique<Target>(rank, endpoints.at(peer));
    place->lost = endpoints.lost(peer);
    place->memory = {memory_.reachable(rank), memory_.size_of(rank), memory_.disp_unit_of(rank),
                     memory_.place_of(rank)};
    if (epoch_.counts && !context_.own(rank)) place->epoch.place = memory_.part().place_of(rank);
    if (place->memory.start) place->routes.add(Route::direct);
    if (memory_.remote().atomics()) place->routes.add(Route::words);
    if (cell_.cells() && place->epoch.place >= 0) place->routes.add(Route::cell);
  }
  return *place;
}

Error Operations::not_in_epoch(int rank) const {
  const std::string target = "rank " + std::to_string(rank);
  if (epoch_.started) return context_.sync_error(target + " is not in the group of MPI_Win_start");
  if (epoch_.locked != 0) return context_.sync_error(target + " is not locked. Call MPI_Win_lock first.");
  return context_.sync_error(
      "there is no access epoch. Call MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all "
      "first.");
}

Error Operations::allow(Target& target) {
  if (target.lost) return context_.environment.endpoints().loss_of(target.endpoint.peer);
  if (target.lock.state != LockState::none) return {};
  if (epoch_.lock_all) {
    target.lock.state = epoch_.lock_all_unchecked ? LockState::held : LockState::wanted;
    target.lock.unchecked = epoch_.lock_all_unchecked;
    target.lock.exclusive = false;
    TERN_DEBUG_ASSERT(epoch_.consistent());
    return {};
  }
  if (epoch_.started) {
    const std::vector<int>& ranks = epoch_.group.ranks;
    const bool member = std::binary_search(ranks.begin(), ranks.end(), target.rank);
    return member ? Error() : not_in_epoch(target.rank);
  }
  if (epoch_.fence == Fence::none || epoch_.locked != 0) return not_in_epoch(target.rank);
  epoch_.fence = Fence::used;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  return {};
}

// A post that comes as a message releases what is held back until then; one in memory must be waited for, as
// MPI_Win_start may, too (MPI 5.0, 12.5.2).
void Operations::await_post(Target& target) {
  if (target.epoch.place < 0) return;
  TERN_DEBUG_ASSERT(epoch_.counts);
  target.epoch.awaited = true;
  waiting_.until_counted([&] { return epoch_.is_open_to(target) || target.lost; }, !context_.serves);
  target.epoch.awaited = false;
}

void Operations::count(const Operation& operation) {
  Counters& counters = context_.counters();
  ++(operation.is_put() ? counters.rma_puts : operation.is_get() ? counters.rma_gets : counters.rma_accumulates);
}

// By the path's atomics, or its put or get, or by message.
void Operations::send_out(const Operation& operation, Target& target, bool by_words, WindowRequest* request) {
  if (by_words) return words_.begin(operation, target, request);
  if (adapter_.takes(target, operation)) return adapter_.begin(operation, target, request);
  records_.begin(operation, target, request);
}

Error Operations::begin(const Operation& operation, Request** request) {
  if (!request && perform_short(operation)) return {};
  if (operation.target == kProcNull) {
    if (request) *request = context_.environment.p2p().completed(kProcNullStatus);
    return {};
  }
  if (Error error = check_operation(context_, memory_, operation)) return error;
  Target& to = target(operation.target);
  if (request && !epoch_.passive())
    return context_.sync_error(
        "request-based operations are for passive-target epochs "
        "(MPI_Win_lock, MPI_Win_lock_all) only");
  if (Error error = allow(to)) return error;
  if (locks_.by_words() && to.lock.state == LockState::wanted) locks_.ask(to);
  if (to.lock.state == LockState::refused) return records_.why_dropped(to);
  count(operation);
  if (epoch_.started && !epoch_.is_open_to(to)) await_post(to);
  const bool by_words = words_.takes(to, operation);
  if (!by_words && direct_.takes(to)) {
    if (to.lock.state == LockState::none) to.epoch.opened = epoch_.number;
    TERN_DEBUG_ASSERT(to.memory.start);
    direct_.begin(operation, to);
    if (request) *request = context_.environment.p2p().completed();
    return {};
  }
  if (!request) {
    send_out(operation, to, by_words, nullptr);
    return {};
  }
  auto* made = new WindowRequest;
  made->status = kEmptyStatus;
  TERN_DEBUG_ASSERT(epoch_.passive());
  *request = made;
  send_out(operation, to, by_words, made);
  made->end_part();
  return {};
}

}  // namespace tern::rma
