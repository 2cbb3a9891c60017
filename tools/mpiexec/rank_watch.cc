#include "rank_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/uio.h>

#include <fstream>
#include <string>
#include <string_view>

namespace tern::mpiexec {
namespace {

struct ProcessState {
  bool stopped = false;
  uint64_t handled = 0;  ///< a bit for each signal that it handles
};

ProcessState state_of(int pid) {
  ProcessState state;
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("State:")) state.stopped = line.find_first_of("Tt", 6) == line.find_first_not_of(" \t", 6);
    if (line.starts_with("SigCgt:")) state.handled = std::strtoull(line.c_str() + 7, nullptr, 16);
  }
  return state;
}

// A fingerprint of a process's memory; 0: it cannot be read.
uint64_t fingerprint(int pid, const Activity& activity) {
  std::string bytes;
  for (const MemoryRange& range : activity) {
    const size_t before = bytes.size();
    bytes.resize(before + range.bytes);
    const iovec here{bytes.data() + before, range.bytes}, there{reinterpret_cast<void*>(range.at), range.bytes};
    if (range.bytes != 0 && process_vm_readv(pid, &here, 1, &there, 1, 0) != ssize_t(range.bytes)) return 0;
  }
  return bytes.empty() ? 0 : std::hash<std::string_view>()(bytes) | 1;
}

}  // namespace

bool is_stopped(const RankReport& report) { return report.pid() > 1 && state_of(report.pid()).stopped; }

void ask_process(const RankReport& report) {
  if (report.pid() <= 1 || report.signal() == 0 || report.signal() > SIGRTMAX) return;
  const ProcessState state = state_of(report.pid());
  if (!state.stopped && (state.handled >> (report.signal() - 1) & 1) != 0) kill(report.pid(), report.signal());
}

void RankActivity::look(const RankReport* report, uint64_t now_ms) {
  const uint64_t seen = report && report->pid() > 1 ? fingerprint(report->pid(), report->activity()) : 0;
  if (seen == 0 || seen != seen_) {
    seen_ = seen;
    since_ms_ = now_ms;
  }
}

}  // namespace tern::mpiexec
