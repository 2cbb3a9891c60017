#include "keeper_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "descendants.h"
#include "keeper_messages.h"
#include "records.h"

namespace tern::mpiexec {
namespace {

constexpr char kName[] = "tern-keeper";

/// Integers in memory that is shared with children until they become their programs: one errno for each (spawn.h).
class FailureSlots {
 public:
  /// Null: no memory.
  int* take() {
    if (free_.empty()) {
      void* memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return nullptr;
      for (size_t i = 0; i < kPage / sizeof(int); ++i) free_.push_back(static_cast<int*>(memory) + i);
    }
    int* slot = free_.back();
    free_.pop_back();
    *slot = 0;
    return slot;
  }
  void give_back(int* slot) { free_.push_back(slot); }

 private:
  static constexpr size_t kPage = 4096;  // what mmap gives at least
  std::vector<int*> free_;
};

// A rank that is killed leaves the shared memory of libfabric's provider shm behind: PID:USER:NUMBER, the number being
// that of an endpoint of the process. To be called just after the process was waited for, while no other has its
// number.
void remove_shared_memory(pid_t pid) {
  constexpr char kFolder[] = "/dev/shm";
  DIR* const folder = opendir(kFolder);
  if (!folder) return;
  const std::string name = std::to_string(pid) + ":" + std::to_string(getuid()) + ":";
  while (const dirent* entry = readdir(folder)) {
    const char* number = entry->d_name + name.size();
    if (strncmp(entry->d_name, name.c_str(), name.size()) == 0 && *number && !number[strspn(number, "0123456789")])
      unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
}

class KeeperProcess {
 public:
  KeeperProcess(int socket, int signals) : socket_(socket), signals_(signals) {}
  void run();

 private:
  struct Child {
    int id;
    int* failure;
  };

  bool take_order();
  void start(const Order& order, int failure);
  void signal_one(int id, int signal);
  void ended(pid_t pid, int status);
  void reap();
  void end_all();
  void report(const Report& report);
  void flush();

  int socket_, signals_;
  std::map<pid_t, Child> children_;
  FailureSlots slots_;
  std::string unsent_;  ///< reports: mpiexec may be busy sending an order
  std::vector<std::string> folders_;
};

void KeeperProcess::report(const Report& report) {
  unsent_.append(reinterpret_cast<const char*>(&report), sizeof report);
  flush();
}

void KeeperProcess::flush() {
  while (!unsent_.empty()) {
    const ssize_t n = send(socket_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // tried again later; if mpiexec has ended, take_order() notices
    unsent_.erase(0, size_t(n));
  }
}

void KeeperProcess::start(const Order& order, int failure) {
  int* slot = failure == 0 ? slots_.take() : nullptr;
  if (failure == 0 && !slot) failure = errno;
  const pid_t pid = failure == 0 ? start_child(unpacked(order), getpid(), slot) : -1;
  if (failure == 0 && pid < 0) failure = errno;
  if (failure != 0) {
    if (slot) slots_.give_back(slot);
    return report({ReportKind::failed, order.id, 0, 0, failure});
  }
  children_[pid] = {order.id, slot};
  report({ReportKind::started, order.id, pid});
}

void KeeperProcess::signal_one(int id, int signal) {
  for (auto& [pid, child] : children_) {
    if (child.id == id) kill(pid, signal);
  }
}

void KeeperProcess::ended(pid_t pid, int status) {
  if (status != 0) remove_shared_memory(pid);
  auto found = children_.find(pid);
  if (found == children_.end()) return;  // an adopted one
  report({ReportKind::ended, found->second.id, pid, status, *found->second.failure});
  slots_.give_back(found->second.failure);
  children_.erase(found);
}

void KeeperProcess::reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) ended(pid, status);
}

void KeeperProcess::end_all() {
  auto left = end_descendants(kEndTimeout_ms, [this](pid_t pid, int status) { ended(pid, status); });
  for (pid_t pid : left) report({ReportKind::all_ended, 0, pid});
  report({ReportKind::all_ended});
}

bool KeeperProcess::take_order() {
  int failure = 0;
  const std::optional<Order> order = receive_order(socket_, failure);
  if (!order) return false;
  switch (order->kind) {
    case OrderKind::start: start(*order, failure); break;
    case OrderKind::signal_one: signal_one(order->id, order->number); break;
    case OrderKind::signal_all: signal_descendants(order->number); break;
    case OrderKind::end_all: end_all(); break;
    case OrderKind::sweep: folders_.push_back(order->text); break;
    case OrderKind::sync:
      reap();
      report({ReportKind::synced});
      break;
  }
  for (int descriptor : order->descriptors) close(descriptor);
  return true;
}

void KeeperProcess::run() {
  while (true) {
    pollfd waits[2] = {{socket_, short(unsent_.empty() ? POLLIN : POLLIN | POLLOUT), 0}, {signals_, POLLIN, 0}};
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) {
      signalfd_siginfo info;
      while (read(signals_, &info, sizeof info) > 0) {
      }
      reap();
    }
    flush();
    if ((waits[0].revents & (POLLIN | POLLHUP | POLLERR)) && !take_order()) break;
  }
  end_all();
  for (const std::string& folder : folders_) remove_records(folder);
}

// The name in ps and top; the words stand one behind the other.
void rename_process(char** argv) {
  prctl(PR_SET_NAME, kName);
  if (!argv || !argv[0]) return;
  char* end = argv[0];
  for (char** word = argv; *word == end; ++word) end += strlen(*word) + 1;
  const size_t room = size_t(end - argv[0]);
  memset(argv[0], 0, room);
  memcpy(argv[0], kName, std::min(room - 1, sizeof kName - 1));
}

// close_range is Linux 5.9's; before, those that /proc names.
void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
#endif
  DIR* const folder = opendir("/proc/self/fd");
  if (!folder) return;
  std::vector<int> open;
  while (const dirent* entry = readdir(folder)) {
    const int file = atoi(entry->d_name);
    if (file >= first && file != dirfd(folder)) open.push_back(file);
  }
  closedir(folder);
  for (int file : open) close(file);
}

}  // namespace

void run_keeper(int socket, char** argv) {
  setpgid(0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  rename_process(argv);
  sigset_t all, children;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  // Keep no descriptor open whose end some process waits for.
  const int null = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; ++i) dup2(null, i);
  if (socket != 3) dup3(socket, 3, O_CLOEXEC);
  close_from(4);
  rlimit descriptors;
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) _exit(1);
  KeeperProcess(3, signals).run();
  _exit(0);
}

}  // namespace tern::mpiexec
