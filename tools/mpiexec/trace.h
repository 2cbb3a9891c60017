// mpiexec --trace: one time line of all ranks, as JSON that Perfetto and chrome://tracing open (the Trace Event
// Format).
//
//   a process for each rank, a thread for each of its threads
//   calls, sleeps, work of the event thread     complete events (X), which nest
//   a message                                   a flow (s, f) from the call that sent it to the call that got it all
//   a receive that took time                    an asynchronous slice (b, e) from the match to its completion
//   messages of protocols                       instant events (i)
#pragma once

#include <string>

#include "records.h"

namespace tern::mpiexec {

struct TraceResult {
  bool written = false;  ///< else errno says why not
  uint64_t events = 0, flows = 0, lost = 0;
  int lost_because = 0;  ///< the errno with which a rank's record got no more room; 0: only --trace-size was reached
};

/// Writes the file. `ended_ns`: as in summary.h.
TraceResult write_trace(const Records& records, const std::string& path, uint64_t ended_ns);

}  // namespace tern::mpiexec
