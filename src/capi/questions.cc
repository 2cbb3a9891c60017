#include "capi/questions.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/signal_text.h"
#include "capi/call.h"
#include "capi/call_site.h"
#include "process/launch/rank_report.h"

namespace tern::capi {
namespace {

// What the handlers may use; null and -1 while there is nothing to answer. A handler gets no argument of ours.
std::atomic<HangMonitor*> watch{nullptr};
std::atomic<int> mpiexec{-1};
const char* const* last_call = nullptr;
int own_rank = 0;
RankPage* page = nullptr;

// A rank that is not in MPI says so at once: it may not come back.
void on_user_question(int, siginfo_t*, void* context) {
  const int before = errno;
  if (HangMonitor* asked = watch.load()) {
    const CallStack stack = walk_stack(interrupted_address(context));
    if (call_sites().first_outside(stack) != 0) {
      asked->ask(HangMonitor::To::standard_error);
    } else {
      char place[200], line[320];
      call_sites().describe(stack, true, place, sizeof place);
      SignalText text(line, sizeof line - 1);
      text.add("[tern rank ").add_number(uint64_t(own_rank)).add("] not in an MPI call");
      if (place[0] != '\0') text.add(", at ").add(place);
      line[text.size()] = '\n';
      static_cast<void>(!write(STDERR_FILENO, line, text.size() + 1));
    }
  }
  errno = before;
}

void send_place(int to, bool inside, const char* place) {
  char line[320];
  SignalText text(line, sizeof line - 1);
  text.add("cmd=tern_place inside=").add_number(inside);
  if (*last_call) text.add(" call=").add(*last_call);
  if (place) text.add(" text=").add(place);
  line[text.size()] = '\n';
  static_cast<void>(!send(to, line, text.size() + 1, MSG_NOSIGNAL));
}

// For mpiexec --top, which looks up the place itself.
void add_sample(const CallStack& stack) {
  const size_t site = call_sites().first_outside(stack);
  if (site != 0) {
    if (*last_call) std::strncpy(page->call, *last_call, sizeof page->call - 1);
    page->place = site < stack.depth ? stack.frames[site] : 0;
    page->samples_inside.fetch_add(1, std::memory_order_relaxed);
  }
  page->samples.fetch_add(1, std::memory_order_release);
}

// Says at once whether the rank is in MPI, then where it is, which may take longer. If it waits in MPI, more follows
// from there.
void on_question(int, siginfo_t*, void* context) {
  const int before = errno;
  HangMonitor* asked = watch.load();
  const int to = mpiexec.load();
  if (!asked) return;
  if (page && page->asked.exchange(0) != 0) {
    add_sample(walk_stack(interrupted_address(context)));
    errno = before;
    return;
  }
  if (to < 0) return;
  const CallStack stack = walk_stack(interrupted_address(context));
  const bool inside = call_sites().first_outside(stack) != 0;
  send_place(to, inside, nullptr);
  char place[200];
  call_sites().describe(stack, true, place, sizeof place);
  send_place(to, inside, place[0] != '\0' ? place : "?");
  if (inside) asked->ask(HangMonitor::To::mpiexec);
  errno = before;
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

// Programs and debuggers prefer the first and the last of the real-time signals. 0: all are in use.
int choose_signal() {
  constexpr int kBelowLast = 3, kTried = 8;  // see above
  for (int signal = SIGRTMAX - kBelowLast; signal > SIGRTMAX - kBelowLast - kTried; --signal) {
    if (is_default(signal)) return signal;
  }
  return 0;
}

// Rows of the table of counters that stand together (base/counters.h), but those that time alone changes.
Activity activity_of(const Counters& counters, const RankPage* shown) {
  const auto range = [](const auto& first, const auto& last) {
    const auto from = reinterpret_cast<uintptr_t>(&first), to = reinterpret_cast<uintptr_t>(&last + 1);
    return MemoryRange{from, to - from};
  };
  return {range(counters.coll_node, counters.coll_scheduled), range(counters.rma_puts, counters.rma_direct),
          range(counters.sent_eager, counters.io_written),
          shown ? range(shown->engines[0], shown->engines[RankPage::kEngines - 1]) : MemoryRange{}};
}

std::string place_of_caller() {
  char place[200];
  call_sites().describe(walk_stack(), false, place, sizeof place);
  return place;
}

// "MPI_COMM_WORLD, root 0".
std::string collective_of(Process& process) {
  const RankEnvironment& environment = process.world().environment();
  if (!environment.inside) return {};
  std::string words = report_name(*environment.inside);
  if (environment.inside_root >= 0) words += ", root " + std::to_string(environment.inside_root);
  return words;
}

}  // namespace

void begin_to_answer(World& world) {
  const char* wish = secure_getenv("TERN_HANG_REPORT");
  if (wish && std::strcmp(wish, "0") == 0) return;
  call_sites();  // made here, since a handler must not
  Process& process = *world.process;
  process.let_watch_tell(place_of_caller, [&world] { return collective_of(*world.process); });
  last_call = &world.call_name;
  watch.store(&process.hang_watch());
  own_rank = world.rank();
  if (wish && *wish && is_default(SIGUSR1)) handle(SIGUSR1, on_user_question);
  const int to = process.launcher().report_descriptor();
  static int signal = 0;  // the same when sessions start the library anew
  page = world.counts.page;
  if ((to < 0 && !page) || (signal == 0 && (signal = choose_signal()) == 0)) return;
  mpiexec.store(to);
  handle(signal, on_question);
  if (page) page->signal = signal;
  if (to < 0) return;
  const std::string hello = hello_line(signal, activity_of(*world.counts.rank, page));
  static_cast<void>(!send(to, hello.data(), hello.size(), MSG_NOSIGNAL));
}

namespace {
void tell(std::string_view line) {
  if (const int to = mpiexec.load(); to >= 0) static_cast<void>(!send(to, line.data(), line.size(), MSG_NOSIGNAL));
}
}  // namespace

void tell_of_difference() { tell("cmd=tern_differs\n"); }
void tell_of_failure() { tell("cmd=tern_failing\n"); }

void end_answers() {
  watch.store(nullptr);
  mpiexec.store(-1);
}

}  // namespace tern::capi
