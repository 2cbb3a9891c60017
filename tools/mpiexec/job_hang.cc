// What a job's ranks wait for: asked of them on request and before a timeout kills, and said by mpiexec itself when all
// of them have waited for long. The rank's side: process/hang_monitor.h, capi/questions.cc.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <string>

#include "hang_page.h"
#include "job.h"

namespace tern::mpiexec {
namespace {

// Ranks have so long to answer, and all of them so much more for each rank: they may have to read their debug
// information first, on cores that they share (30 ms each).
constexpr uint64_t kAnswer_ms = 2000, kAnswerOfEach_ms = 100;
// A rank that has begun to answer will say the rest, later where others need the cores.
constexpr uint64_t kRestOfAnswer_ms = 10'000;
// Jobs that were spawned print pages of their own, before this one.
constexpr uint64_t kPageOfSpawned_ms = 1000;
// Between the last rank's word that it waits, and the page: what the others are sent in this moment arrives meanwhile.
constexpr uint64_t kSettle_ms = 1000;

// How often the ranks' counters are read: a microsecond for each rank, and a page says how long in seconds.
constexpr uint64_t kLook_ms = 1000;

}  // namespace

// Since when each rank has not communicated. A rank that computes cannot be asked for that: it would have to read a
// clock in every call.
void Job::look_at_activity() {
  const uint64_t now = now_ms();
  bool some = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (is_remote(int(i))) continue;  // its agent looks
    const bool readable = ranks_[i].live && server_->is_inside(int(i));
    activity_[i].look(readable ? &server_->report(int(i)) : nullptr, now);
    some = some || activity_[i].known();
  }
  look_at_ms_ = some ? now + kLook_ms : 0;
}

void Job::ask_rank(int rank) {
  server_->report(rank).ask();
  if (!is_remote(rank) && ranks_[size_t(rank)].live && server_->is_inside(rank)) ask_process(server_->report(rank));
}

// Asks every rank that is inside MPI; on_reports() prints the page.
void Job::request_reports(bool then_end) {
  end_after_reports_ |= then_end;
  if (reports_until_ms_ != 0) return;  // asked already
  for (size_t rank = 0; rank < ranks_.size(); ++rank) ask_rank(int(rank));
  ask_agents(FrameKind::ask);
  for (size_t job = 0; job < spawned_.size(); ++job) keeper_.signal_one(int(ranks_.size() + job), SIGUSR1);
  pages_until_ms_ = spawned_.empty() ? 0 : now_ms() + kPageOfSpawned_ms;
  reports_extended_ = false;
  reports_until_ms_ = now_ms() + kAnswer_ms + kAnswerOfEach_ms * ranks_.size();
  on_reports();
}

// Whether nothing more is to be expected of the rank.
bool Job::has_answered(int rank) {
  const RankReport& report = server_->report(rank);
  if (!ranks_[size_t(rank)].live || !server_->is_inside(rank) || report.signal() == 0) return true;
  // The place comes behind the answer.
  return report.placed() && !report.place().empty() && (!report.inside() || report.waits());
}

std::vector<RankView> Job::rank_views() {
  look_at_activity();
  const uint64_t now = now_ms();
  std::vector<RankView> views(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = int(i);
    RankView& view = views[i];
    view.report = server_->report(rank);
    view.alone_ms = is_remote(rank) ? remote_looks_[i].alone_ms : activity_[i].alone_ms(now);
    view.stopped = is_remote(rank) ? remote_looks_[i].stopped : is_stopped(view.report);
    using Stage = RankView::Stage;
    view.stage = !ranks_[i].live             ? Stage::ended
                 : server_->is_meeting(rank) ? Stage::meeting
                 : server_->is_inside(rank)  ? Stage::inside
                 : server_->was_inside(rank) ? Stage::finalized
                                             : Stage::not_started;
  }
  return views;
}

void Job::on_reports() {
  if (reports_until_ms_ == 0) return;
  bool all = true, begun = false;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (has_answered(int(rank))) continue;
    all = false;
    const RankReport& report = server_->report(int(rank));
    begun = begun || (report.placed() && report.place().empty());  // its signal handler looks for the place
  }
  all = all && now_ms() >= pages_until_ms_;
  if (!all && now_ms() < reports_until_ms_) return;
  if (!all && begun && !reports_extended_) {
    reports_extended_ = true;
    reports_until_ms_ += kRestOfAnswer_ms;
    return;
  }
  reports_until_ms_ = 0;
  tell(fmt::format("what the ranks{} do:\n{}", parents_ >= 0 ? " of a spawned job" : "", hang_page(rank_views())));
  if (end_after_reports_) end_ranks("");
}

// If all ranks have waited for long, and nothing but their messages can end that, it is a deadlock.
void Job::watch_stall() {
  bool all = live_ == int(ranks_.size()) && !ending_;
  for (size_t rank = 0; rank < ranks_.size() && all; ++rank) {
    all = server_->is_inside(int(rank)) && server_->report(int(rank)).stalled();
  }
  if (!all) {
    stalled_at_ms_ = 0;
    stall_said_ = false;
  } else if (stalled_at_ms_ == 0 && !stall_said_) {
    stalled_at_ms_ = now_ms() + kSettle_ms;
    ask_agents(FrameKind::look);
  }
}

void Job::on_stall() {
  stalled_at_ms_ = 0;
  const std::vector<RankView> views = rank_views();
  // A stopped rank may have been sent what it waits for.
  if (std::any_of(views.begin(), views.end(), [](const RankView& view) { return view.stopped; })) return;
  stall_said_ = true;
  const size_t count = views.size();
  const std::string all = count == 1 ? std::string("the rank waits") : fmt::format("all {} ranks wait", count);
  const bool moving = std::any_of(views.begin(), views.end(), [](const RankView& v) { return v.report.wait().moving; });
  tell(moving ? fmt::format("{} in MPI, and what is on its way does not arrive: the network is silent, or a host. The "
                            "job goes on when it is back.\n{}",
                            all, hang_page(views))
              : fmt::format("{} in MPI and nothing is on its way: without help from outside, the job will not go on. "
                            "It is not ended (Ctrl-C, or -timeout, does that).\n{}",
                            all, hang_page(views)));
}

}  // namespace tern::mpiexec
