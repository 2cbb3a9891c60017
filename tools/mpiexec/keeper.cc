#include "keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "descendants.h"
#include "keeper_process.h"

namespace tern::mpiexec {
namespace {
// The keeper answers within microseconds; a second of silence means that it was stopped (SIGSTOP).
constexpr int kKeeperAnswer_ms = 1000;
}  // namespace

bool Keeper::start(char** argv) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_ = fork();
  if (pid_ == 0) run_keeper(ends[1], argv);
  close(ends[1]);
  if (pid_ < 0) {
    close(ends[0]);
    return false;
  }
  socket_ = ends[0];
  return true;
}

Keeper::~Keeper() {
  if (socket_ < 0) {
    // It was killed before: nobody else ends what it has started.
    if (pid_ > 0) end_descendants(kEndTimeout_ms, [](pid_t, int) {});
    return;
  }
  close(socket_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Keeper::order(const Order& order) {
  if (socket_ < 0) {
    errno = EPIPE;
    return false;
  }
  return send_order(socket_, order);  // receive() notices when the keeper has ended
}

bool Keeper::start_child(int id, const ChildSpec& spec) {
  Order start{OrderKind::start, id, 0, packed(spec), {spec.standard[0], spec.standard[1], spec.standard[2]}};
  if (spec.keep >= 0) start.descriptors.push_back(spec.keep);
  return order(start);
}

void Keeper::signal_one(int id, int signal) {
  if (order({OrderKind::signal_one, id, signal})) return;
  if (auto found = started_.find(id); found != started_.end()) kill(found->second, signal);
}

void Keeper::signal_all(int signal) {
  if (!order({OrderKind::signal_all, 0, signal})) signal_descendants(signal);
}

void Keeper::sweep(const std::string& folder) { order({OrderKind::sweep, 0, 0, folder}); }

// The keeper was killed. Its last reports are still read; then the ranks are our own children.
void Keeper::lose() {
  close(socket_);
  socket_ = -1;
}

bool Keeper::some_end_soon() const {
  return std::any_of(started_.begin(), started_.end(), [](const auto& one) { return is_ending(one.second); });
}

void Keeper::reap_own() {
  auto ended = [this](int id, pid_t pid, int status) {
    reports_.push_back({ReportKind::ended, id, pid, status, 0});
    started_.erase(id);
  };
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (auto [id, started] : std::map<int, pid_t>(started_)) {
      if (started == pid) ended(id, pid, status);
    }
  }
  // Those that ended while the keeper lived, but were not reported.
  for (auto [id, pid] : std::map<int, pid_t>(started_)) {
    if (kill(pid, 0) != 0 && errno == ESRCH) ended(id, pid, W_EXITCODE(1, 0));
  }
}

// One read. False: nothing has come (or, with `wait`, not for long).
bool Keeper::receive(bool wait) {
  if (socket_ < 0) return false;
  if (wait) {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, kKeeperAnswer_ms) == 0) return false;
  }
  char buffer[4096];
  const ssize_t n = recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && errno == EINTR) return true;
  if (n < 0 && errno == EAGAIN) return false;
  if (n <= 0) {
    lose();
    return false;
  }
  partial_.append(buffer, size_t(n));
  size_t at = 0;
  for (; partial_.size() - at >= sizeof(Report); at += sizeof(Report)) {
    Report report;
    memcpy(&report, partial_.data() + at, sizeof report);
    if (report.kind == ReportKind::started) started_[report.id] = report.pid;
    if (report.kind == ReportKind::ended) started_.erase(report.id);
    reports_.push_back(report);
  }
  partial_.erase(0, at);
  return true;
}

bool Keeper::next(Report& report) {
  while (receive(false)) {
  }
  if (socket_ < 0 && pid_ > 0) reap_own();
  if (reports_.empty()) return false;
  report = reports_.front();
  reports_.pop_front();
  return true;
}

void Keeper::sync() {
  if (!order({OrderKind::sync})) return;
  while (receive(true)) {
    if (!reports_.empty() && reports_.back().kind == ReportKind::synced) {
      reports_.pop_back();
      return;
    }
  }
}

std::vector<pid_t> Keeper::end_all() {
  auto nobody = [](pid_t, int) {};
  if (!order({OrderKind::end_all})) return end_descendants(kEndTimeout_ms, nobody);
  std::vector<pid_t> left;
  while (receive(true)) {
    for (; !reports_.empty(); reports_.pop_front()) {
      if (reports_.front().kind != ReportKind::all_ended) continue;
      if (reports_.front().pid == 0) return left;
      left.push_back(reports_.front().pid);
    }
  }
  return end_descendants(kEndTimeout_ms, nobody);
}

}  // namespace tern::mpiexec
