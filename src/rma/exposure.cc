#include "rma/exposure.h"

#include <algorithm>

#include "base/assert.h"
#include "rma/answers.h"

namespace tern::rma {

Source& Exposure::source(int rank) {
  if (sources_.empty()) sources_.resize(size_t(context_.comm->size()));
  TERN_DEBUG_ASSERT(size_t(rank) < sources_.size());
  std::unique_ptr<Source>& place = sources_[size_t(rank)];
  if (!place) {
    place = std::make_unique<Source>(rank, context_.environment.endpoints().at(context_.comm->peer(rank)));
  }
  return *place;
}

bool Exposure::is_silent() const {
  return std::all_of(sources_.begin(), sources_.end(), [](auto& one) { return !one || one->replying == 0; });
}

// --- Post, test, wait.

Error Exposure::members(Group& group, EpochGroup& members) const {
  if (members.group.get() == &group) return {};
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) {
    const int rank = context_.comm->group().rank_of(group.peer(i));
    if (rank == kUndefined) {
      return Error(ErrorClass::group, context_.describe() + ": rank " + std::to_string(i) +
                                          " of argument 'group' is not in the window's group");
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  members = {Ref<Group>::share(&group), std::move(ranks)};
  return {};
}

Error Exposure::post(Group& group, bool told) {
  TERN_ASSERT(!posted_);
  if (Error error = members(group, posted_group_)) return error;
  posted_ = true;
  Endpoints& endpoints = context_.environment.endpoints();
  for (int rank : posted_group_.ranks) {
    const int place = counts_ && !context_.own(rank) ? memory_.part().place_of(rank) : -1;
    if (place >= 0) {
      counts_->post(place, told);
    } else if (told) {
      ++context_.counters().rma_messages;
      endpoints.post(endpoints.at(context_.comm->peer(rank)), context_.header(wire::kWindowPost));
    }
  }
  return {};
}

bool Exposure::is_over() {
  if (counts_) completed_ += counts_->take_completions();
  TERN_DEBUG_ASSERT(posted_ && completed_ >= 0);
  const std::vector<int>& ranks = posted_group_.ranks;
  if (completed_ >= int(ranks.size())) return true;
  Endpoints& endpoints = context_.environment.endpoints();
  return endpoints.losses() != 0 &&
         std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return endpoints.lost(context_.comm->peer(rank)); });
}

Error Exposure::end_epoch() {
  TERN_ASSERT(posted_);
  const int origins = int(posted_group_.ranks.size());
  const bool whole = completed_ >= origins;
  completed_ = whole ? completed_ - origins : 0;
  TERN_DEBUG_ASSERT(completed_ >= 0);
  if (counts_) counts_->end_exposure();
  posted_ = false;
  if (whole) return {};
  Endpoints& endpoints = context_.environment.endpoints();
  for (int rank : posted_group_.ranks) {
    const PeerId peer = context_.comm->peer(rank);
    if (endpoints.lost(peer)) return endpoints.loss_of(peer);
  }
  return {};
}

Error Exposure::wait() {
  if (!posted_) return context_.sync_error("there is no epoch of MPI_Win_post to wait for");
  if (counts_) waiting_.until_counted([&] { return is_over(); }, !context_.serves);
  else waiting_.until([&] { return is_over(); });
  return end_epoch();
}

Error Exposure::test(bool& flag) {
  flag = false;
  if (!posted_) return context_.sync_error("there is no epoch of MPI_Win_post to test");
  if (!is_over()) context_.progress().look();
  if (!is_over()) return {};
  flag = true;
  return end_epoch();
}

// --- What comes.

size_t Exposure::serve(int from, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
  Source& origin = source(from);
  if (origin.waits) return 0;  // it was told to wait for the lock
  size_t answered = 0;
  const bool plain = confirm != 0 && !room.empty() && !origin.unlocks && !origin.completes && !origin.refused;
  if (plain && serve_short(records, confirm, room, answered)) return answered;
  end_access(origin);  // it has all results, else it would not have begun anew
  {
    Answers answers(*this, origin, room);
    carry_out(origin, records, answers);
    if (confirm != 0 && origin.waits) wire::WindowWriter(origin.held).record({wire::WindowCode::flush, 0, 0, confirm});
    else if (confirm != 0) answers.confirm(confirm);
    answered = answers.finish();
    TERN_DEBUG_ASSERT(answered <= room.size());
  }
  grant_ready();
  context_.progress().notify();
  return answered;
}

bool Exposure::land(int rank, size_t bytes, Landing& landing) {
  Source& from = source(rank);
  if (from.expected != Source::Expected::operation || bytes != from.body.bytes) {
    from.expected = Source::Expected::nothing;
    return false;
  }
  if (wire::WindowAction(from.head.flag) == wire::WindowAction::put) {
    const Datatype* type = nullptr;
    return !locate(from, from.body, landing.target, type);
  }
  from.arriving.resize(bytes);
  TERN_DEBUG_ASSERT(bytes != 0);
  landing.target = Cursor::bytes(from.arriving.data(), bytes);
  return true;
}

void Exposure::landed(int rank, const Error& error) {
  Source& from = source(rank);
  from.expected = Source::Expected::nothing;
  if (error || wire::WindowAction(from.head.flag) == wire::WindowAction::put) return;
  Answers answers(*this, from);
  Cursor cursor;
  const Datatype* type = nullptr;
  if (Error wrong = locate(from, from.body, cursor, type)) return answers.failed(from.head.number, wrong);
  perform(from.head, from.body, from.arriving, cursor, *type, answers);
}

void Exposure::lose(int rank) {
  if (locks_.holds(rank) && broken_.empty()) {
    broken_ = "rank " + std::to_string(rank) + " of the window was lost while it held the lock";
    for (int waiting : locks_.dismiss()) granted_.push_back(waiting);
  }
  locks_.forget(rank);
  if (!sources_.empty() && sources_[size_t(rank)]) own_turns_.forget(sources_[size_t(rank)]->returns);
  std::erase(granted_, rank);
  grant_ready();
}

// --- The lock.

// Nobody else may touch the window before what the origin has asked for was read from it.
void Exposure::result_left(Source& from) {
  from.end_reply();
  if (from.replying != 0) return;
  end_access(from);
  grant_ready();
  context_.progress().notify();
}

void Exposure::end_access(Source& from) {
  if (from.unlocks) {
    locks_.release(from.rank, granted_);
    if (!context_.own(from.rank)) own_turns_.gave_back(from.returns);
  }
  if (from.completes) ++completed_;
  from.unlocks = from.completes = false;
}

// The records of the rank that got the lock are carried out, which may pass the lock on.
void Exposure::grant_ready() {
  if (granting_) return;
  granting_ = true;
  while (!granted_.empty()) {
    Source& next = source(granted_.front());
    granted_.erase(granted_.begin());
    TERN_ASSERT(next.waits);
    next.waits = false;
    const std::vector<std::byte> records = std::move(next.held);
    next.held.clear();
    Answers answers(*this, next);
    if (!broken_.empty()) refuse_lock(next, answers);
    answers.granted();
    carry_out(next, records, answers);
  }
  granting_ = false;
}

void Exposure::refuse_lock(Source& from, Answers& answers) {
  from.refused = true;
  TERN_DEBUG_ASSERT(!broken_.empty() && !from.waits);
  answers.failed(0, Error(ErrorClass::proc_aborted, broken_));
}

// False: the origin waits, and so does the rest of its records.
bool Exposure::ask_lock(Source& from, LockMode mode, std::span<const std::byte> rest, Answers& answers) {
  if (!broken_.empty()) {
    refuse_lock(from, answers);
    answers.granted();
    return true;
  }
  own_turns_.asked(from.returns);
  TERN_DEBUG_ASSERT(!from.waits && from.held.empty());
  if (locks_.acquire(from.rank, mode) == LockQueue::Answer::granted) {
    answers.granted();
    return true;
  }
  ++context_.counters().rma_lock_waits;
  from.waits = true;
  from.held.assign(rest.begin(), rest.end());
  return false;
}

void Exposure::let_others_come() {
  if (own_turns_.waits()) {
    Clock& clock = context_.progress().clock();
    const uint64_t until_ns = clock.now_ns() + kOwnPatience_ns;
    while (own_turns_.waits()) {
      context_.progress().look();
      if (clock.now_ns() >= until_ns) own_turns_.give_up();
    }
  }
  own_turns_.took();
}

void Exposure::report(const std::function<void(const std::string&)>& add) const {
  if (posted_ && completed_ < int(posted_group_.ranks.size()))
    add(std::to_string(completed_) + " of " + std::to_string(posted_group_.ranks.size()) +
        " origins have called MPI_Win_complete");
  for (int holder : locks_.holders()) add("rank " + std::to_string(holder) + " holds this rank's lock");
  if (locks_.queued() != 0) add(std::to_string(locks_.queued()) + " origins wait for this rank's lock");
  for (const auto& source : sources_) {
    if (source && source->replying != 0)
      add(std::to_string(source->replying) + " results for rank " + std::to_string(source->rank) + " have not left");
  }
}

}  // namespace tern::rma
