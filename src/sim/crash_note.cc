#include "sim/crash_note.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "sim/scheduler.h"

namespace tern::sim {
namespace {

// A signal handler gets no argument of its owner; this is the one thread-local variable of the simulator.
thread_local CrashNote* innermost = nullptr;
struct sigaction previous_abort, previous_segv;

}  // namespace

struct CrashNoteHandler {
  static size_t digits(char* out, uint64_t value) {
    char reversed[20];
    size_t n = 0;
    do reversed[n++] = char('0' + value % 10);
    while (value /= 10);
    for (size_t i = 0; i < n; ++i) out[i] = reversed[n - 1 - i];
    return n;
  }
  // Only what a signal handler may do: no formatting, no allocation.
  static void write_note() {
    char text[256];
    size_t n = 0;
    auto say = [&](const char* words) {
      size_t length = std::strlen(words);
      std::memcpy(text + n, words, length);
      n += length;
    };
    say("[tern] this happened in the simulator");
    if (innermost->rank_ >= 0) {
      say(", on rank ");
      n += digits(text + n, uint64_t(innermost->rank_));
    }
    say(", at virtual time ");
    n += digits(text + n, innermost->scheduler_.now_ns());
    say(" ns; replay with TERN_SIM_SEED=");
    n += digits(text + n, innermost->seed_);
    say("\n");
    [[maybe_unused]] ssize_t written = write(2, text, n);
  }
  static void on_signal(int signal) {
    if (innermost) write_note();
    sigaction(signal, signal == SIGABRT ? &previous_abort : &previous_segv, nullptr);
    if (signal == SIGABRT) raise(signal);  // a fault is repeated by itself
  }
};

CrashNote::CrashNote(const Scheduler& scheduler, uint64_t seed)
    : scheduler_(scheduler), seed_(seed), outer_(innermost) {
  innermost = this;
  if (outer_) return;
  struct sigaction action {};
  action.sa_handler = CrashNoteHandler::on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGABRT, &action, &previous_abort);
  sigaction(SIGSEGV, &action, &previous_segv);
}

CrashNote::~CrashNote() {
  innermost = outer_;
  if (innermost) return;
  sigaction(SIGABRT, &previous_abort, nullptr);
  sigaction(SIGSEGV, &previous_segv, nullptr);
}

}  // namespace tern::sim
