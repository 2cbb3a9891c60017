// What --summary and --trace add to a job: ranks are told where to leave their records, which are read when all have
// ended.
#pragma once

#include <string>

#include "keeper.h"
#include "plan.h"
#include "records.h"

namespace tern::mpiexec {

class Recording {
 public:
  /// Makes the folder for the records and tells the ranks through the plan's environment; does nothing when the plan
  /// wants neither. The keeper removes the folder if mpiexec is killed. `elsewhere`: ranks run on other hosts too, so
  /// that the folder must be one that all of them see. False: it cannot be, and the reason is said.
  bool begin(Plan& plan, bool elsewhere, Keeper& keeper);
  /// After the last rank has ended: prints the summary to standard error, writes the trace. False: the trace cannot be
  /// written, and the reason is said.
  bool end(const Plan& plan);

 private:
  RecordFolder folder_;
};

}  // namespace tern::mpiexec
