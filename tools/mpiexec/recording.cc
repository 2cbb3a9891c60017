#include "recording.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/owned_file.h"
#include "base/recorder.h"
#include "explain.h"
#include "page.h"
#include "streams.h"
#include "summary.h"
#include "timeline.h"
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

/// Next to the trace, where there is room for it; totals alone are small.
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

/// "mpiexec -n 4 ./heat 100".
std::string command_text(const Plan& plan) {
  std::string text = "mpiexec";
  if (plan.is_simulated()) text += " --simulate " + plan.simulated_machine;
  for (size_t i = 0; i < plan.apps.size(); ++i) {
    text += fmt::format("{} -n {}", i == 0 ? "" : " :", plan.apps[i].ranks);
    for (const std::string& word : plan.apps[i].command) text += " " + word;
  }
  return text;
}

/// Whether it has no room for one rank's record.
bool is_full(const std::string& folder) {
  struct statvfs room;
  return statvfs(folder.c_str(), &room) == 0 && uint64_t(room.f_bavail) * room.f_frsize < record::kEventsAt;
}

}  // namespace

bool Recording::begin(Plan& plan, bool elsewhere, Keeper& keeper) {
  if (!plan.records()) return true;
  if (!plan.trace_file.empty()) {
    // Checks now, not after hours, whether the file can be made; without making it, since a job that is killed should
    // leave no empty trace.
    if (std::string why; !could_be_own_file(plan.trace_file, why)) {
      say(fmt::format("trace '{}': {}", plan.trace_file, why));
      return false;
    }
  }
  const std::string prefix = folder_prefix(plan, elsewhere);
  if (!folder_.make(prefix, [&keeper](const std::string& path) { keeper.sweep(path); })) {
    say(fmt::format("a folder '{}...' for the ranks' records: {}", prefix, strerror(errno)));
    return false;
  }
  plan.environment.push_back("TERN_RECORD=" + folder_.path());
  const uint64_t event_bytes = plan.events() ? uint64_t(plan.trace_mib) << 20 : 0;
  plan.environment.push_back(fmt::format("TERN_RECORD_EVENTS={}", event_bytes));
  return true;
}

bool Recording::end(const Plan& plan) {
  if (!plan.records()) return true;
  const uint64_t ended_ns = Recorder::now_ns();
  const Records records = read_records(folder_.path());
  if (records.empty() && is_full(folder_.path())) {
    say(fmt::format("the ranks could leave no records in '{}': {}. {}", folder_.path(), strerror(ENOSPC),
                    plan.trace_file.empty() ? "TMPDIR names another place" : "Write the trace elsewhere"));
    return false;
  }
  bool told = !plan.summary || print_error(summary_of(records, plan.ranks(), ended_ns));
  if (!plan.events()) return told;
  if (records.empty()) {
    const std::string wanted = plan.trace_file.empty() ? "--explain" : plan.trace_file;
    say(fmt::format("trace '{}': no rank has called MPI_Init of this Tern", wanted));
    return false;
  }
  std::unique_ptr<Timeline> timeline;
  Explanation explanation;
  if (plan.explain || is_page(plan.trace_file)) {
    timeline = std::make_unique<Timeline>(records, ended_ns);
    explanation = explain(*timeline);
    told = (!plan.explain || print_error(explanation_text(*timeline, explanation))) && told;
  }
  if (plan.trace_file.empty()) return told;
  const TraceResult result = is_page(plan.trace_file)
                                 ? write_page(*timeline, explanation, plan.trace_file, command_text(plan))
                                 : write_trace(records, plan.trace_file, ended_ns);
  if (!result.written) {
    say(fmt::format("trace '{}': {}", plan.trace_file, strerror(errno)));
    return false;
  }
  if (result.lost != 0 && result.lost_because != 0) {
    say(fmt::format(
        "trace '{}': the ends of time lines are missing, {} events: {}, in the trace's folder, where the ranks "
        "leave their records until they end",
        plan.trace_file, result.lost, strerror(result.lost_because)));
    return false;
  }
  if (result.lost != 0) {
    say(fmt::format("trace '{}': the ends of time lines are missing, {} events, for lack of room (--trace-size)",
                    plan.trace_file, result.lost));
  }
  if (plan.verbose) {
    say(fmt::format("trace '{}': {} events, {} messages", plan.trace_file, result.events, result.flows));
  }
  return told;
}

}  // namespace tern::mpiexec
