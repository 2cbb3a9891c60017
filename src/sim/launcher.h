// The launcher of simulated ranks: a notice board that all ranks of a world share.
// Thread rule: strands of one scheduler.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "process/launcher.h"
#include "sim/scheduler.h"

namespace tern::sim {

/// What the ranks have put, and the state of the fence.
class NoticeBoard {
 public:
  NoticeBoard(int ranks, int ranks_per_node, uint64_t fence_ns)
      : ranks_(ranks),
        expected_(ranks),
        ranks_per_node_(ranks_per_node),
        fence_ns_(fence_ns),
        strands_(size_t(ranks)),
        inside_(size_t(ranks)) {}
  void attach(Strand& strand) { strands_[strand.rank()] = &strand; }
  /// The first rank that called for the end of all; -1: none has.
  int aborted_by() const { return aborted_by_; }
  int abort_code() const { return abort_code_; }
  const std::string& abort_message() const { return abort_message_; }
  /// That rank will not come to the fence any more.
  void lose(Strand& strand, uint64_t now_ns);

 private:
  friend class SimLauncher;
  /// Ends the fence if all ranks that can come have come.
  void release_if_complete(uint64_t time_ns);

  const int ranks_;
  int expected_;  ///< ranks minus lost ranks
  const int ranks_per_node_;
  const uint64_t fence_ns_;  ///< from the last rank's arrival to the release of all
  std::vector<Strand*> strands_;
  std::map<std::pair<int, std::string>, std::string, std::less<>> visible_, hidden_;
  int arrived_ = 0;
  std::vector<bool> inside_;  ///< in the fence now, by rank
  uint64_t fences_ = 0;
  uint64_t released_at_ns_ = 0;  ///< from the last one
  int aborted_by_ = -1, abort_code_ = 0;
  std::string abort_message_;
};

class SimLauncher final : public Launcher {
 public:
  SimLauncher(NoticeBoard& board, Strand& strand) : board_(board), strand_(strand) {}
  int rank() const override { return int(strand_.rank()); }
  int size() const override { return board_.ranks_; }
  int universe_size() const override { return board_.ranks_; }
  int app_number() const override { return 0; }
  std::string_view job_id() const override { return "sim"; }
  std::vector<int> local_ranks() const override;
  int nodes() const override { return (board_.ranks_ + board_.ranks_per_node_ - 1) / board_.ranks_per_node_; }
  Error put(std::string_view key, std::string_view value) override;
  Error fence() override;
  Error get(int rank, std::string_view key, std::string& value) override;
  Error enter_barrier() override;
  bool barrier_is_over(Error& error) override;
  /// Ends the whole run as failed.
  [[noreturn]] void abort(int code, std::string_view message) override;
  Error finalize() override { return {}; }

 private:
  NoticeBoard& board_;
  Strand& strand_;
  uint64_t entered_ = 0;  ///< fences that were complete then
};

}  // namespace tern::sim
