#include "capi/crash_report.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/signal_text.h"
#include "capi/call_site.h"

namespace tern::capi {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
// Room for reading debug information; pages that are not used cost nothing.
constexpr size_t kStack_bytes = 512 << 10;
// The report is given up after so long: a fault inside of the dynamic linker may have left its locks taken.
constexpr unsigned kPatience_s = 5;
constexpr size_t kFramesShown = 24;  // a screen

int own_rank = -1;
std::atomic<int> reporting{0};           // the thread (gettid) that writes the report
volatile sig_atomic_t fatal_signal = 0;  // the one it writes about

// What the kernel says of the address; the other codes of these signals tell nothing to a user.
const char* reason(int signal, int code) {
  if (signal == SIGSEGV && code == SEGV_MAPERR) return ", where no memory is";
  if (signal == SIGSEGV && code == SEGV_ACCERR) return ", whose memory does not allow this access";
  if (signal == SIGBUS && code == BUS_ADRERR) return ", behind the end of a mapped file, or memory has run out";
  if (signal == SIGFPE && code == FPE_INTDIV) return ", a division of an integer by zero";
  return "";
}

void write_text(const SignalText& text, const char* buffer) {
  static_cast<void>(!write(STDERR_FILENO, buffer, text.size()));
}

SignalText& begin_line(SignalText& text) {
  text.add("[tern");
  if (own_rank >= 0) text.add(" rank ").add_number(uint64_t(own_rank));
  return text.add("] ");
}

void write_head(int signal, const siginfo_t& info) {
  char line[256];
  SignalText text(line, sizeof line);
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  begin_line(text).add("signal ").add_number(uint64_t(signal)).add(" (SIG").add(name ? name : "?");
  text.add(", ").add(meaning ? meaning : "unknown").add(")");
  if (info.si_code <= 0) {
    text.add(signal == SIGABRT ? ": the process has aborted itself" : ", sent by process ");
    if (signal != SIGABRT) text.add_number(uint64_t(info.si_pid));
  } else if (signal != SIGABRT) {
    text.add(" at address 0x").add_hex(reinterpret_cast<uintptr_t>(info.si_addr)).add(reason(signal, info.si_code));
  }
  write_text(text.add("\n"), line);
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
    begin_line(text).add("  0  ").add(place).add("; the stack cannot be followed, it was overwritten perhaps\n");
    return write_text(text, line);
  }
  for (size_t i = 0; i < std::min(stack.depth, kFramesShown); ++i) {
    call_sites().symbols().describe(stack.frames[i], exact && i == 0, place, sizeof place);
    SignalText text(line, sizeof line);
    begin_line(text).add("  ").add_number(i).add("  ").add(place).add("\n");
    write_text(text, line);
    if (std::strncmp(place, "main ", 5) == 0) break;  // what called main says nothing
  }
}

void take_usual_way(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_grace_over(int) { take_usual_way(fatal_signal); }

// The first thread reports. Another one that meets a fault meanwhile waits for the end of the process; the same thread
// met it in the report itself.
void on_crash(int signal, siginfo_t* info, void* context) {
  int nobody = 0;
  const int self = gettid();
  if (!reporting.compare_exchange_strong(nobody, self)) {
    if (nobody == self) return take_usual_way(signal);
    for (unsigned s = 0; s <= kPatience_s; ++s) sleep(1);
    return take_usual_way(signal);
  }
  fatal_signal = signal;
  std::signal(SIGALRM, on_grace_over);
  alarm(kPatience_s);
  write_head(signal, *info);
  write_frames(context);
  alarm(0);
  std::signal(signal, SIG_DFL);
  // A fault repeats itself on return, with the registers as they were, which a core dump then shows.
  if (info->si_code <= 0) raise(signal);
}

// A stack overflow leaves no room for a handler. Kept until the thread ends.
void give_signal_stack() {
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  void* memory =
      mmap(nullptr, kStack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t ours{};
  ours.ss_sp = memory;
  ours.ss_size = kStack_bytes;
  sigaltstack(&ours, nullptr);
}

}  // namespace

void begin_to_report_crashes(int rank) {
  static bool begun = false;
  const char* wish = std::getenv("TERN_BACKTRACE");
  if (begun || (wish && std::strcmp(wish, "0") == 0)) return;
  begun = true;
  own_rank = rank;
  call_sites();  // made here, since a handler must not
  give_signal_stack();
  for (int signal : kSignals) {
    if (!is_default(signal)) continue;
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace tern::capi
