// What ranks say as they end: mpiexec holds it for a moment, since other ranks say the same, and prints it once. The
// rank's side: process/launch/rank_report.h.
#include <algorithm>
#include <utility>

#include "job.h"
#include "rank_errors.h"

namespace tern::mpiexec {
namespace {
// Ranks that meet the same error do so within some time slices of each other: as long as others come, more are awaited.
// For each rank that shares a core, up to the maximum: they come one after the other.
constexpr uint64_t kOthers_ms = 100, kMostOthers_ms = 1000;
// The end of a rank that has begun is awaited: it reads its debug information first (capi/crash_report.cc gives up
// after 5 s).
constexpr uint64_t kMost_ms = 6000;
}  // namespace

bool Job::some_error() {
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    if (server_->report(rank).has_error()) return true;
  }
  return false;
}

void Job::print_errors() {
  std::vector<RankError> errors;
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    if (server_->report(rank).has_error()) errors.push_back({rank, server_->report(rank).take_error()});
  }
  err_.add(folded(errors));
  write_output();
}

// Called until the errors are printed and the job is ended.
void Job::on_errors() {
  if (!failing_) return;
  const uint64_t now = now_ms();
  if (errors_until_ms_ == 0) {
    errors_until_ms_ = now + kMost_ms;
  }
  bool some_coming = false;
  size_t said = 0;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!server_->report(int(rank)).is_failing()) continue;
    ++said;
    some_coming |= ranks_[rank].live;
  }
  const size_t on_a_core = (ranks_.size() + size_t(cores_.all) - 1) / size_t(cores_.all);
  if (std::exchange(errors_said_, said) != said) errors_at_ms_ = now + std::min(kOthers_ms * on_a_core, kMostOthers_ms);
  if (live_ > 0 && now < errors_until_ms_ && (now < errors_at_ms_ || some_coming)) {
    errors_at_ms_ = std::max(errors_at_ms_, now + 10);  // then it is looked at again
    return;
  }
  errors_at_ms_ = 0;
  print_errors();
  end_ranks(*std::exchange(failing_, std::nullopt));
}

}  // namespace tern::mpiexec
