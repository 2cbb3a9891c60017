// Reports what a rank waits for: on request (a signal), when it has waited too long (tunable hang_report_s), and to its
// mpiexec after kTell_ns, which compares what all ranks say (docs/troubleshooting.md).
// Thread rule: under the rank's lock; `ask` from anywhere, also a signal handler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "p2p/point_to_point.h"
#include "process/launch/rank_report.h"
#include "progress/wait_observer.h"

namespace tern {

class HangMonitor final : public WaitObserver {
 public:
  /// A rank that is asleep for so long tells mpiexec: long against every pause of a program that goes on.
  static constexpr uint64_t kTell_ns = 10'000'000'000;

  /// `limit_s`: report a wait of so many seconds, once; 0: only on request.
  HangMonitor(int rank, Clock& clock, PointToPoint& p2p, int64_t limit_s)
      : rank_(rank), clock_(clock), p2p_(p2p), limit_ns_(uint64_t(limit_s) * 1'000'000'000u) {}

  /// What the process knows, and this class does not.
  struct Surroundings {
    /// Where mpiexec reads the lines of rank_report.h; not owned; -1: nowhere.
    int mpiexec = -1;
    /// Where the program called MPI, for the thread that asks; may be empty. Outlives this.
    std::function<std::string()> place;
    /// The blocking collective that the rank is in, in words; empty: none. May be empty. Outlives this.
    std::function<std::string()> collective;
    /// What is on its way by the paths, a line for each; may be empty. Outlives this.
    std::function<std::vector<std::string>()> on_the_way;
    /// Only messages of this job's ranks can end a wait: no other thread, job or device.
    std::function<bool()> certain;
  };
  void set_surroundings(Surroundings surroundings);
  /// Readable after `ask`, for ProgressEngine::watch: a rank that sleeps wakes for it. -1 before set_surroundings.
  /// Owned here.
  int wake_descriptor() const { return wake_.get(); }

  enum class To : int { nobody = 0, standard_error = 1, mpiexec = 2 };
  /// Requests a report; it is written after the rank's next empty poll. Async-signal-safe.
  void ask(To to);

  void on_empty_polls(uint32_t empty_polls) override;
  void on_clock(uint64_t now_ns) override;
  void on_sleep() override;
  void on_wait_over() override;
  uint64_t next_deadline_ns() const override;

  /// Adds other things that are waited for, in lines; called for every report.
  void add_report(std::function<std::string()> report) { more_.push_back(std::move(report)); }
  /// Where the name of the MPI call that the rank is in is stored ("MPI_Recv"); owned by the C API, outlives this.
  void set_call(const char* const* call) { call_ = call; }

 private:
  void begin_wait(uint64_t now_ns);
  void look(uint64_t now);
  void answer();
  void print(uint64_t now);
  void tell(uint64_t now, bool by_itself);
  void send(const std::string& lines);
  bool tells() const { return surroundings_.mpiexec >= 0; }
  std::string more() const;
  std::string ways() const;

  int rank_;
  Clock& clock_;
  PointToPoint& p2p_;
  uint64_t limit_ns_;
  Surroundings surroundings_;
  Descriptor wake_;            ///< an eventfd
  uint32_t last_ = 0;          ///< `empty_polls` of the last call in this wait; 0: none yet
  uint64_t since_ns_ = 0;      ///< when this wait was first looked at; 0: not yet
  bool slept_ = false;         ///< since the last look
  bool printed_ = false;       ///< this wait was reported because of limit_ns_
  bool told_ = false;          ///< mpiexec was told of this wait
  std::atomic<int> asked_{0};  ///< a set of To
  std::vector<std::function<std::string()>> more_;
  const char* const* call_ = nullptr;  ///< null: unknown
};

}  // namespace tern
