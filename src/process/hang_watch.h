// Reports what a rank waits for: on request (a signal), and when it has waited too long (tunable hang_report_s).
// Thread rule: under the rank's lock; `ask` from anywhere, also a signal handler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "p2p/point_to_point.h"
#include "progress/watch.h"

namespace tern {

class HangWatch final : public WaitWatch {
 public:
  /// `limit_s`: report a wait of so many seconds, once; 0: only on request.
  HangWatch(int rank, Clock& clock, PointToPoint& p2p, int64_t limit_s)
      : rank_(rank), clock_(clock), p2p_(p2p), limit_ns_(uint64_t(limit_s) * 1'000'000'000u) {}

  /// Requests a report; it is written after the rank's next empty poll. Async-signal-safe.
  void ask() { asked_.store(true, std::memory_order_relaxed); }

  void on_empty_polls(uint32_t empty_polls) override;
  uint64_t next_deadline_ns() const override { return limit_ns_ == 0 || reported_ ? ~uint64_t{0} : deadline_ns_; }

  /// Adds other things that are waited for, in lines; called for every report.
  void add_report(std::function<std::string()> report) { more_ = std::move(report); }
  /// Where the name of the MPI call that the rank is in is stored ("MPI_Recv"); owned by the C API, outlives this.
  void set_call(const char* const* call) { call_ = call; }

 private:
  void report(uint64_t now);

  int rank_;
  Clock& clock_;
  PointToPoint& p2p_;
  uint64_t limit_ns_;
  uint32_t seen_ = 0;      ///< `empty_polls` at the last look at this wait; 0: none yet
  uint64_t since_ns_ = 0;  ///< when this wait was first seen
  uint64_t deadline_ns_ = ~uint64_t{0};
  bool reported_ = false;  ///< this wait has been reported
  std::atomic<bool> asked_{false};
  std::function<std::string()> more_;
  const char* const* call_ = nullptr;  ///< null: unknown
};

}  // namespace tern
