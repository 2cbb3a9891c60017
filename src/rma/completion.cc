#include "rma/completion.h"
#include "base/assert.h"

#include <algorithm>

namespace tern::rma {

Error Completion::take_error(Target& target) {
  Error error = std::move(target.error);
  if (!error && target.lock.state == LockState::refused) error = records_.why_dropped(target);
  if (!error && target.lost) error = context_.environment.endpoints().loss_of(target.endpoint.peer);
  return error;
}

Error Completion::take_errors() {
  Error first;
  for (auto& target : targets_) {
    if (!target || !target->error) continue;
    Error error = std::move(target->error);
    if (!first) first = std::move(error);
  }
  return first;
}

// A confirmation stands for everything before it; results come before it. (One is asked for also where it is here and
// data have not left: conclude.)
Error Completion::finish(Target& target) {
  if (target.flight.transfers != 0) records_.pump(target, true);
  adapter_.finish(target);
  records_.conclude(target);
  const InFlight::Mark mark = target.flight.mark();
  if (target.has_passed(mark)) waiting_.look();
  else waiting_.until_answered([&] { return target.has_passed(mark); });
  return take_error(target);
}

void Completion::finish_transfers() {
  for (auto& target : targets_) {
    if (target && target->flight.transfers != 0) records_.pump(*target, true);
  }
  for (auto& target : targets_) {
    if (target) adapter_.finish(*target);
  }
}

Error Completion::finish_all() {
  finish_transfers();
  std::vector<std::pair<Target*, InFlight::Mark>> asked;
  for (auto& target : targets_) {
    if (!target) continue;
    records_.conclude(*target);
    if (const InFlight::Mark mark = target->flight.mark(); !target->has_passed(mark))
      asked.push_back({target.get(), mark});
  }
  if (asked.empty()) {
    waiting_.look();
    return take_errors();
  }
  waiting_.until_answered([&] {
    return std::all_of(asked.begin(), asked.end(), [](auto& one) { return one.first->has_passed(one.second); });
  });
  return take_errors();
}

// What is in records was copied from the user's memory.
Error Completion::finish_locally(Target& target) {
  records_.pump(target, true);
  if (!target.flight.is_over()) return finish(target);
  waiting_.look();
  return take_error(target);
}

Error Completion::finish_all_locally() {
  Error first;
  for (auto& target : targets_) {
    if (target) records_.pump(*target, true);
  }
  for (auto& target : targets_) {
    if (!target) continue;
    if (Error error = finish_locally(*target); error && !first) first = std::move(error);
  }
  return first;
}

}  // namespace tern::rma
