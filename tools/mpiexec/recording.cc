#include "recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/recorder.h"
#include "summary.h"
#include "trace.h"

namespace tern::mpiexec {
namespace {

std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char* here = getcwd(nullptr, 0);
  const std::string whole = std::string(here ? here : "") + "/" + path;
  free(here);
  return whole;
}

/// Beside the trace, which is where there is room for it; totals alone are small.
std::string folder_prefix(const Plan& plan, bool elsewhere) {
  if (!plan.trace_file.empty()) {
    const std::string file = absolute(plan.trace_file);
    const size_t slash = file.rfind('/');
    return file.substr(0, slash + 1) + "." + file.substr(slash + 1) + "-";
  }
  const char* temporary = getenv("TMPDIR");
  return elsewhere ? absolute(".tern-summary-")
                   : std::string(temporary && *temporary ? temporary : "/tmp") + "/tern-summary-";
}

}  // namespace

bool Recording::begin(Plan& plan, bool elsewhere) {
  if (!plan.records()) return true;
  if (!plan.trace_file.empty()) {
    // Now, not after hours: whether there may be such a file.
    const int file = open(plan.trace_file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
      fmt::print(stderr, "mpiexec: trace '{}': {}\n", plan.trace_file, strerror(errno));
      return false;
    }
    close(file);
  }
  const std::string prefix = folder_prefix(plan, elsewhere);
  if (!folder_.make(prefix)) {
    fmt::print(stderr, "mpiexec: a folder '{}...' for the ranks' records: {}\n", prefix, strerror(errno));
    return false;
  }
  plan.environment.push_back("TERN_RECORD=" + folder_.path());
  const uint64_t event_bytes = plan.trace_file.empty() ? 0 : uint64_t(plan.trace_mib) << 20;
  plan.environment.push_back(fmt::format("TERN_RECORD_EVENTS={}", event_bytes));
  return true;
}

bool Recording::end(const Plan& plan) {
  if (!plan.records()) return true;
  const uint64_t ended_ns = Recorder::now_ns();
  const Records records = read_records(folder_.path());
  if (plan.summary) fmt::print(stderr, "{}", summary_of(records, plan.ranks(), ended_ns));
  if (plan.trace_file.empty()) return true;
  if (records.empty()) {
    fmt::print(stderr, "mpiexec: trace '{}': no rank has called MPI_Init of this Tern\n", plan.trace_file);
    return false;
  }
  const TraceResult result = write_trace(records, plan.trace_file, ended_ns);
  if (!result.written) {
    fmt::print(stderr, "mpiexec: trace '{}': {}\n", plan.trace_file, strerror(errno));
    return false;
  }
  if (result.lost != 0) {
    fmt::print(stderr,
               "mpiexec: trace '{}': the ends of time lines are missing, {} events, for lack of room (--trace-size)\n",
               plan.trace_file, result.lost);
  }
  if (plan.verbose) {
    fmt::print(stderr, "mpiexec: trace '{}': {} events, {} messages\n", plan.trace_file, result.events, result.flows);
  }
  return true;
}

}  // namespace tern::mpiexec
