#include "capi/crash_report.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/fatal.h"
#include "base/signal_text.h"
#include "base/stack_end.h"
#include "base/system_names.h"
#include "capi/call_site.h"
#include "process/launch/rank_report.h"

namespace tern::capi {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
constexpr int kLastSignal = 31;  // of those above, and of all signals before the real-time ones
// Room for reading debug information; pages that are not used cost nothing.
constexpr size_t kStackBytes = 512 << 10;
// The report is given up after so long: a fault inside of the dynamic linker may have left its locks taken.
constexpr unsigned kPatience_s = 5;
constexpr size_t kFramesShown = 24;  // a screen

int own_rank = -1;
pid_t own_process = 0;                         // a forked child has no connection of its own
std::atomic<int> mpiexec{-1};                  // where it takes the lines; -1: nowhere
uintptr_t main_stack_end = 0;                  // of the thread that has called MPI_Init; 0: unknown
struct sigaction handled_by[kLastSignal + 1];  // what the handler of this file stands before; all null: nothing
std::atomic<int> reporting{0};                 // the thread (gettid) that writes the report
volatile sig_atomic_t fatal_signal = 0;        // the one it writes about

// What the kernel says of the address; the other codes of these signals tell nothing to a user.
const char* reason(int signal, int code) {
  if (signal == SIGSEGV && code == SEGV_MAPERR) return ", where no memory is";
  if (signal == SIGSEGV && code == SEGV_ACCERR) return ", whose memory does not allow this access";
  if (signal == SIGBUS && code == BUS_ADRERR) return ", behind the end of a mapped file, or memory has run out";
  if (signal == SIGFPE && code == FPE_INTDIV) return ", a division of an integer by zero";
  return "";
}

/// An array, or a recursion, that does not fit on the stack: the access is at the stack pointer, below what the stack
/// may have. A thread that the program has made has no signal stack, and does not come here.
bool is_stack_overflow(int signal, const siginfo_t& info, const void* context) {
  constexpr uintptr_t kReach = 64 << 10;  // a frame's own variables and calls lie so near to the stack pointer
  constexpr uintptr_t kPages = 8 << 10;   // the last page that the kernel has refused
  const auto at = reinterpret_cast<uintptr_t>(info.si_addr), sp = interrupted_stack(context);
  rlimit limit{};
  if ((signal != SIGSEGV && signal != SIGBUS) || info.si_code <= 0 || main_stack_end == 0 || sp == 0) return false;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= main_stack_end) return false;
  return at < main_stack_end - limit.rlim_cur + kPages && sp < main_stack_end && at + kReach >= sp && at < sp + kReach;
}

/// Writes a line of the report: mpiexec does so for all ranks that say the same, or it goes to standard error.
void write_line(const char* words) {
  char line[1024];
  SignalText text(line, sizeof line - 1);
  if (const int to = getpid() == own_process ? mpiexec.load() : -1; to >= 0 && mpiexec_writes_errors()) {
    text.add("cmd=tern_error head=1 text=").add(words);
    line[text.size()] = '\n';
    if (send(to, line, text.size() + 1, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(text.size() + 1)) return;
    text = SignalText(line, sizeof line - 1);
  }
  text.add("[tern");
  if (own_rank >= 0) text.add(" rank ").add_number(uint64_t(own_rank));
  text.add("] ").add(words);
  line[text.size()] = '\n';
  static_cast<void>(!write(STDERR_FILENO, line, text.size() + 1));
}

/// "in the library's own thread tern-events".
void add_helper(SignalText& text) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  if (std::strncmp(name, "tern-", 5) != 0) return;
  text.add(", in the library's own thread ").add(name);
  text.add(": was the memory of an operation that is not completed freed, or is it not the program's");
}

void add_overflow(SignalText& text) {
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  text.add(": stack overflow. The stack may have ").add_number(limit.rlim_cur >> 10);
  text.add(
      " KiB (ulimit -s): raise that with `ulimit -s unlimited` before mpiexec, or allocate large arrays instead "
      "(Fortran: allocatable, or gfortran without -fstack-arrays, which -Ofast includes)");
}

void write_head(int signal, const siginfo_t& info, const void* context) {
  char line[800];
  SignalText text(line, sizeof line);
  const char* name = signal_name(signal);
  const char* meaning = signal_meaning(signal);
  text.add("signal ").add_number(uint64_t(signal)).add(" (SIG").add(name ? name : "?");
  text.add(", ").add(meaning ? meaning : "unknown").add(")");
  if (info.si_code <= 0) {
    text.add(signal == SIGABRT ? ": the process has aborted itself" : ", sent by process ");
    if (signal != SIGABRT) text.add_number(uint64_t(info.si_pid));
  } else if (signal != SIGABRT) {
    text.add(" at address 0x").add_hex(reinterpret_cast<uintptr_t>(info.si_addr));
    if (is_stack_overflow(signal, info, context)) add_overflow(text);
    else text.add(reason(signal, info.si_code));
    add_helper(text);
  }
  tern_fatal_error(line);
  write_line(line);
}

/// Whether the stack begins at this address, and more than that is known.
bool is_whole(const CallStack& stack, uintptr_t first) { return stack.depth > 1 && stack.frames[0] == first; }

/// A call of a function at an address without code (a null pointer, mostly) is interrupted before the function has a
/// frame. The stack as if it had returned; of depth 0: it is none. The unwinder reads the registers that the kernel has
/// kept for the interrupted code.
CallStack walk_from_caller([[maybe_unused]] void* context) {
  CallStack stack;
#if defined(__x86_64__)
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const greg_t pc = registers[REG_RIP], sp = registers[REG_RSP];
  greg_t caller;
  std::memcpy(&caller, reinterpret_cast<const void*>(sp), sizeof caller);
  registers[REG_RIP] = caller;
  registers[REG_RSP] = sp + greg_t(sizeof caller);
  stack = walk_stack(uintptr_t(caller));
  registers[REG_RIP] = pc;
  registers[REG_RSP] = sp;
#elif defined(__aarch64__)
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto pc = machine.pc, caller = machine.regs[30];
  machine.pc = caller;
  stack = walk_stack(caller);
  machine.pc = pc;
#else
  constexpr uintptr_t caller = 0;
#endif
  if (!is_whole(stack, uintptr_t(caller))) stack.depth = 0;
  return stack;
}

void write_frames(void* context) {
  const uintptr_t interrupted = interrupted_address(context);
  CallStack stack = walk_stack(interrupted);
  const bool exact = is_whole(stack, interrupted);
  if (!exact) stack = walk_from_caller(context);
  char place[300], line[400];
  if (stack.depth == 0) {
    call_sites().symbols().describe(interrupted, true, place, sizeof place);
    SignalText text(line, sizeof line);
    text.add("  0  ").add(place).add("; the stack cannot be followed, it was overwritten perhaps");
    return write_line(line);
  }
  char before[300] = "";
  size_t alike = 0, shown = 0;
  const auto tell_alike = [&] {
    SignalText text(line, sizeof line);
    text.add("     ... ").add_number(alike).add(" more like this");
    if (alike != 0) write_line(line);
    alike = 0;
  };
  for (size_t i = 0; i < stack.depth && shown < kFramesShown; ++i) {
    call_sites().symbols().describe(stack.frames[i], exact && i == 0, place, sizeof place);
    if (std::strcmp(place, before) == 0) {  // a recursion
      ++alike;
      continue;
    }
    tell_alike();
    ++shown;
    SignalText text(line, sizeof line);
    text.add("  ").add_number(i).add("  ").add(place);
    write_line(line);
    std::memcpy(before, place, sizeof place);
    if (std::strncmp(place, "main ", 5) == 0) break;  // what called main says nothing
  }
  tell_alike();
}

// A fault repeats itself on return, with the registers as they were: then the handler that was there before, or the
// kernel, takes it.
void step_aside(int signal) {
  if (handled_by[signal].sa_handler != SIG_DFL) sigaction(signal, &handled_by[signal], nullptr);
  else std::signal(signal, SIG_DFL);
}

void take_usual_way(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_grace_over(int) { take_usual_way(fatal_signal); }

/// Handlers that tell no more than this one does: the Fortran library's, which know nothing of ranks, and fail where
/// the stack is full.
bool is_of_fortran(const struct sigaction& action) {
  Dl_info info{};
  void* const address = (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(action.sa_sigaction)
                                                            : reinterpret_cast<void*>(action.sa_handler);
  return dladdr(address, &info) != 0 && info.dli_fname && std::strstr(info.dli_fname, "libgfortran");
}
bool of_fortran[kLastSignal + 1];

/// Another handler of the program's, which is called, except where it could not run.
bool reports_for(int signal) { return handled_by[signal].sa_handler == SIG_DFL || of_fortran[signal]; }

/// The handlers that are there already stay, unless they are of no use on a full stack. Then this one comes first.
bool comes_first(int signal) {
  struct sigaction& now = handled_by[signal];
  if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) return false;
  if (is_default(signal)) return true;
  of_fortran[signal] = is_of_fortran(now);
  return of_fortran[signal] || ((signal == SIGSEGV || signal == SIGBUS) && (now.sa_flags & SA_ONSTACK) == 0);
}

// The first thread reports. Another one that meets a fault meanwhile waits for the end of the process; the same thread
// met it in the report itself.
void on_crash(int signal, siginfo_t* info, void* context) {
  if (!reports_for(signal) && !is_stack_overflow(signal, *info, context)) {
    step_aside(signal);
    if (info->si_code <= 0) raise(signal);
    return;
  }
  int nobody = 0;
  const int self = int(syscall(SYS_gettid));
  if (!reporting.compare_exchange_strong(nobody, self)) {
    if (nobody == self) return take_usual_way(signal);
    for (unsigned s = 0; s <= kPatience_s; ++s) sleep(1);
    return take_usual_way(signal);
  }
  fatal_signal = signal;
  std::signal(SIGALRM, on_grace_over);
  alarm(kPatience_s);
  write_head(signal, *info, context);
  write_frames(context);
  alarm(0);
  step_aside(signal);
  // A fault repeats itself, which a core dump then shows.
  if (info->si_code <= 0) raise(signal);
}

// A stack overflow leaves no room for a handler. Kept until the thread ends.
void give_signal_stack() {
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t ours{};
  ours.ss_sp = memory;
  ours.ss_size = kStackBytes;
  sigaltstack(&ours, nullptr);
}

}  // namespace

void begin_to_report_crashes(int rank, int mpiexec_descriptor) {
  mpiexec.store(mpiexec_descriptor);
  own_process = getpid();
  static bool begun = false;
  const char* wish = secure_getenv("TERN_BACKTRACE");
  if (begun || (wish && std::strcmp(wish, "0") == 0)) return;
  begun = true;
  own_rank = rank;
  call_sites();  // made here, since a handler must not
  give_signal_stack();
  main_stack_end = stack_end();
  for (int signal : kSignals) {
    if (!comes_first(signal)) continue;
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
}

void end_of_mpiexec() { mpiexec.store(-1); }

}  // namespace tern::capi
