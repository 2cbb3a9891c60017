#include "sim/launcher.h"

#include <algorithm>

namespace tern::sim {

std::vector<int> SimLauncher::local_ranks() const {
  std::vector<int> ranks;
  int first = rank() / board_.ranks_per_node_ * board_.ranks_per_node_;
  for (int r = first; r < std::min(first + board_.ranks_per_node_, board_.ranks_); ++r) ranks.push_back(r);
  return ranks;
}

void NoticeBoard::release_if_complete(uint64_t time_ns) {
  if (arrived_ != expected_) return;
  arrived_ = 0;
  inside_.assign(inside_.size(), false);
  ++fences_;
  released_at_ns_ = time_ns + fence_ns_;
  visible_.merge(hidden_);
  for (Strand* strand : strands_) strand->wake(released_at_ns_);
}

void NoticeBoard::lose(Strand& strand, uint64_t now_ns) {
  --expected_;
  if (inside_[strand.rank()]) {
    inside_[strand.rank()] = false;
    --arrived_;
  }
  if (expected_ != 0) release_if_complete(now_ns);
}

Error SimLauncher::put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kMaxKeyLength) return Error(ErrorClass::intern, "a key of a wrong length was put");
  auto [where, fresh] = board_.hidden_.emplace(std::pair(rank(), std::string(key)), std::string(value));
  if (!fresh || board_.visible_.contains(where->first)) {
    return Error(ErrorClass::intern, "the key " + std::string(key) + " was put twice");
  }
  return {};
}

Error SimLauncher::fence() {
  Error error = enter_barrier();
  while (!barrier_is_over(error)) strand_.block(kNever_ns, "in the launcher's fence");
  return error;
}

Error SimLauncher::enter_barrier() {
  strand_.catch_up();
  entered_ = board_.fences_;
  board_.inside_[strand_.rank()] = true;
  ++board_.arrived_;
  board_.release_if_complete(strand_.now_ns());
  return {};
}

// All have arrived: the news takes its time, also to ranks that ask earlier.
bool SimLauncher::barrier_is_over(Error&) {
  if (board_.fences_ == entered_) return false;
  while (strand_.now_ns() < board_.released_at_ns_) strand_.block(board_.released_at_ns_, "in the launcher's fence");
  return true;
}

Error SimLauncher::get(int rank, std::string_view key, std::string& value) {
  auto found = board_.visible_.find(std::pair(rank, std::string(key)));
  if (found == board_.visible_.end()) {
    return Error(ErrorClass::intern, "rank " + std::to_string(rank) + " has not put " + std::string(key));
  }
  value = found->second;
  return {};
}

void SimLauncher::abort(int code, std::string_view message) {
  if (board_.aborted_by_ < 0) {
    board_.aborted_by_ = rank();
    board_.abort_code_ = code;
    board_.abort_message_ = message;
  }
  strand_.scheduler().fail("rank " + std::to_string(rank()) + " aborted with code " + std::to_string(code) + ": " +
                           std::string(message));
  strand_.stop();
}

}  // namespace tern::sim
