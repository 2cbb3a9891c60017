// What can be seen of a rank's process from outside: whether it is stopped, since when it has not communicated, and how
// it is asked what it does. For processes of this host.
// Thread rule: the event loop.
#pragma once

#include <cstdint>

#include "process/launch/rank_report.h"

namespace tern::mpiexec {

/// The process has been stopped, by a signal or a debugger.
bool is_stopped(const RankReport& report);

/// Sends the signal that the rank has told, unless that would end it: a rank that does not handle it any more.
void ask_process(const RankReport& report);

/// Since when a rank has not communicated. One that computes cannot be asked for that: it would have to read a clock in
/// every call.
class RankActivity {
 public:
  /// Looks at its counters. Null: they cannot be read.
  void look(const RankReport* report, uint64_t now_ms);
  bool known() const { return seen_ != 0; }
  uint64_t alone_ms(uint64_t now_ms) const { return seen_ != 0 ? now_ms - since_ms_ : 0; }

 private:
  uint64_t seen_ = 0;      ///< a fingerprint of its counters; 0: unknown
  uint64_t since_ms_ = 0;  ///< when they were first like that
};

}  // namespace tern::mpiexec
