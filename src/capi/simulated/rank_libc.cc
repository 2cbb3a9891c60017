#include "capi/simulated/rank_libc.h"

#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unordered_map>

#include "capi/simulated/rank_process.h"
#include "capi/simulated/rank_threads.h"

namespace tern::sim {
namespace {

RankProcess& here() { return RankProcess::here(); }

// --- The end.

void exit_here(int code) { here().exit(code); }
void exit_now(int code) { here().end_now({code & 0xff, 0}); }
void exit_quickly(int code) { here().end_now({code & 0xff, 0}); }
void abort_here() { here().end_now({0, SIGABRT}); }
int at_exit(void (*function)()) {
  here().at_exit(reinterpret_cast<void (*)(void*)>(function), nullptr);
  return 0;
}
int cxa_at_exit(void (*function)(void*), void* argument, void*) {
  here().at_exit(function, argument);
  return 0;
}
int at_quick_exit_nothing(void (*)()) { return 0; }
// Libraries of a rank are not closed one by one: all functions are called at its end.
void cxa_finalize(void*) {}
int start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*)(), void (*)(), void (*)(), void*) {
  here().start_main(main, argc, argv);
}

int raise_here(int signal) {
  RankProcess& process = here();
  auto action = process.signal_actions().find(signal);
  if (action != process.signal_actions().end() && action->second != SIG_DFL) {
    if (action->second != SIG_IGN) action->second(signal);
    return 0;
  }
  switch (signal) {
    case 0:
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH: return 0;
    default: process.end_now({0, signal});
  }
}
int kill_here(pid_t process, int signal) {
  return process == getpid() || process == 0 ? raise_here(signal) : ::kill(process, signal);
}
RankProcess::SignalAction signal_here(int signal, RankProcess::SignalAction action) {
  return std::exchange(here().signal_actions()[signal], action);
}
int sigaction_here(int signal, const struct sigaction* action, struct sigaction* before) {
  auto& mine = here().signal_actions()[signal];
  if (before) {
    *before = {};
    before->sa_handler = mine;
  }
  if (action) mine = action->sa_handler;
  return 0;
}

// --- What cannot be simulated.

pid_t fork_here() {
  here().host().cannot("calls fork: a simulated rank is no process of its own. Run such a program without --simulate");
  errno = ENOSYS;
  return -1;
}
int exec_here() {
  here().host().cannot("calls exec, which would replace the simulator. Run such a program without --simulate");
  errno = ENOSYS;
  return -1;
}
unsigned alarm_here(unsigned) {
  here().host().cannot(
      "sets a timer that sends a signal: there are none in the simulator, the program goes on without");
  return 0;
}
int set_timer(int, const itimerval*, itimerval* before) {
  if (before) *before = {};
  return int(alarm_here(0));
}

// --- Input and output.

// As under mpiexec: standard input goes to rank 0, the others find an empty file.
ssize_t read_here(int descriptor, void* data, size_t bytes) {
  return descriptor == 0 && here().rank() != 0 ? 0 : ::read(descriptor, data, bytes);
}

ssize_t write_here(int descriptor, const void* data, size_t bytes) {
  if (descriptor != 1 && descriptor != 2) return ::write(descriptor, data, bytes);
  here().host().write(descriptor, {static_cast<const char*>(data), bytes});
  return ssize_t(bytes);
}
ssize_t write_pieces(int descriptor, const iovec* pieces, int count) {
  if (descriptor != 1 && descriptor != 2) return ::writev(descriptor, pieces, count);
  ssize_t all = 0;
  for (int i = 0; i < count; ++i) all += write_here(descriptor, pieces[i].iov_base, pieces[i].iov_len);
  return all;
}
int print_to(int descriptor, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* text = nullptr;
  const int bytes = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (bytes >= 0) write_here(descriptor, text, size_t(bytes));
  std::free(text);
  return bytes;
}
int file_number(FILE* file) {
  if (file == here().out()) return 1;
  if (file == stderr) return 2;
  if (file == stdin) return 0;
  return ::fileno(file);
}

// --- Time. The day is the same in every simulation, so that what is drawn from it is, too.

constexpr uint64_t kDay_s = 1767225600;  // 2026-01-01, 0:00 UTC

timespec to_timespec(uint64_t ns, uint64_t seconds) {
  return {time_t(seconds + ns / 1'000'000'000), long(ns % 1'000'000'000)};
}
double wall_time() { return double(here().host().now_ns()) * 1e-9; }
int clock_read(clockid_t clock, timespec* time) {
  const bool of_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
  *time = to_timespec(here().host().now_ns(), of_day ? kDay_s : 0);
  return 0;
}
int time_of_day(timeval* time, void*) {
  const timespec now = to_timespec(here().host().now_ns(), kDay_s);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
time_t time_here(time_t* to) {
  const time_t now = to_timespec(here().host().now_ns(), kDay_s).tv_sec;
  if (to) *to = now;
  return now;
}
clock_t clock_here() { return clock_t(here().host().now_ns() / (1'000'000'000 / CLOCKS_PER_SEC)); }
clock_t times_here(tms* times) {
  const auto ticks = clock_t(here().host().now_ns() / (1'000'000'000 / uint64_t(sysconf(_SC_CLK_TCK))));
  if (times) *times = {ticks, 0, 0, 0};
  return ticks;
}
int usage(int who, rusage* to) {
  const int result = ::getrusage(__rusage_who_t(who), to);
  const timespec now = to_timespec(here().host().now_ns(), 0);
  to->ru_utime = {now.tv_sec, now.tv_nsec / 1000};
  to->ru_stime = {};
  return result;
}
int sleep_for(const timespec* time, timespec* left) {
  here().host().sleep_ns(uint64_t(time->tv_sec) * 1'000'000'000 + uint64_t(time->tv_nsec));
  if (left) *left = {};
  return 0;
}
int clock_sleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if ((flags & TIMER_ABSTIME) == 0) return sleep_for(time, left);
  timespec now;
  clock_read(clock, &now);
  const int64_t ns = (time->tv_sec - now.tv_sec) * 1'000'000'000 + time->tv_nsec - now.tv_nsec;
  if (ns > 0) here().host().sleep_ns(uint64_t(ns));
  return 0;
}
int sleep_us(useconds_t us) {
  here().host().sleep_ns(uint64_t{us} * 1000);
  return 0;
}
unsigned sleep_s(unsigned seconds) {
  here().host().sleep_ns(uint64_t{seconds} * 1'000'000'000);
  return 0;
}

// --- Kept once by the C library.

int random_int() {
  int32_t value = 0;
  random_r(&here().random().data, &value);
  return value;
}
long random_long() { return random_int(); }
void seed_random(unsigned seed) { srandom_r(seed, &here().random().data); }
double random_double() {
  double value = 0;
  drand48_r(&here().random().data48, &value);
  return value;
}
double random_double_of(unsigned short state[3]) {
  double value = 0;
  erand48_r(state, &here().random().data48, &value);
  return value;
}
long random_positive48() {
  long value = 0;
  lrand48_r(&here().random().data48, &value);
  return value;
}
long random_signed48() {
  long value = 0;
  mrand48_r(&here().random().data48, &value);
  return value;
}
void seed_random48(long seed) { srand48_r(seed, &here().random().data48); }
unsigned short* seed_random48_with(unsigned short seed[3]) {
  static unsigned short before[3];
  seed48_r(seed, &here().random().data48);
  return before;
}
char* split(char* text, const char* delimiters) { return strtok_r(text, delimiters, &here().strtok_place()); }

// The C library's variables have the rank's values for the time of the call.
template <typename Call>
int with_options(Call call) {
  RankProcess& process = here();
  optind = process.host_variable<int>(kOptind);
  opterr = process.host_variable<int>(kOpterr);
  const int result = call();
  process.host_variable<char*>(kOptarg) = optarg;
  process.host_variable<int>(kOptind) = optind;
  process.host_variable<int>(kOptopt) = optopt;
  return result;
}
int options(int argc, char* const* argv, const char* letters) {
  return with_options([&] { return ::getopt(argc, argv, letters); });
}
int options_long(int argc, char* const* argv, const char* letters, const option* names, int* index) {
  return with_options([&] { return ::getopt_long(argc, argv, letters, names, index); });
}
int options_long_only(int argc, char* const* argv, const char* letters, const option* names, int* index) {
  return with_options([&] { return ::getopt_long_only(argc, argv, letters, names, index); });
}

char* variable(const char* name) {
  char* const value = std::getenv(name);
  static char one[] = "1";
  if (value || !here().uses_openmp()) return value;
  return std::strcmp(name, "OMP_NUM_THREADS") == 0 || std::strcmp(name, "OPENBLAS_NUM_THREADS") == 0 ? one : nullptr;
}
int host_name(char* name, size_t bytes) {
  std::snprintf(name, bytes, "%s", here().host().node_name().c_str());
  return 0;
}
int system_name(utsname* name) {
  const int result = ::uname(name);
  host_name(name->nodename, sizeof name->nodename);
  return result;
}

// A "module" is the address of its data: program_template.h.
struct ThreadIndex {
  uint64_t module, offset;
};
void* thread_address(ThreadIndex* index) { return reinterpret_cast<void*>(index->module + index->offset); }

using Table = std::unordered_map<std::string_view, const void*>;
template <typename Function>
const void* address(Function* function) {
  return reinterpret_cast<const void*>(function);
}

void add_end(Table& table) {
  table.insert({{"exit", address(exit_here)},
                {"_exit", address(exit_now)},
                {"_Exit", address(exit_now)},
                {"quick_exit", address(exit_quickly)},
                {"abort", address(abort_here)},
                {"atexit", address(at_exit)},
                {"__cxa_atexit", address(cxa_at_exit)},
                {"__cxa_thread_atexit_impl", address(cxa_at_exit)},
                {"at_quick_exit", address(at_quick_exit_nothing)},
                {"__cxa_finalize", address(cxa_finalize)},
                {"__libc_start_main", address(start_main)},
                {"raise", address(raise_here)},
                {"kill", address(kill_here)},
                {"signal", address(signal_here)},
                {"sigaction", address(sigaction_here)},
                {"fork", address(fork_here)},
                {"vfork", address(fork_here)},
                {"execv", address(exec_here)},
                {"execve", address(exec_here)},
                {"execvp", address(exec_here)},
                {"execl", address(exec_here)},
                {"execlp", address(exec_here)},
                {"execle", address(exec_here)},
                {"alarm", address(alarm_here)},
                {"setitimer", address(set_timer)}});
}

void add_time(Table& table) {
  table.insert({{"MPI_Wtime", address(wall_time)},
                {"PMPI_Wtime", address(wall_time)},
                {"clock_gettime", address(clock_read)},
                {"gettimeofday", address(time_of_day)},
                {"time", address(time_here)},
                {"clock", address(clock_here)},
                {"times", address(times_here)},
                {"getrusage", address(usage)},
                {"nanosleep", address(sleep_for)},
                {"clock_nanosleep", address(clock_sleep)},
                {"usleep", address(sleep_us)},
                {"sleep", address(sleep_s)}});
}

void add_state(Table& table) {
  table.insert({{"read", address(read_here)},
                {"write", address(write_here)},
                {"writev", address(write_pieces)},
                {"dprintf", address(print_to)},
                {"fileno", address(file_number)},
                {"rand", address(random_int)},
                {"srand", address(seed_random)},
                {"random", address(random_long)},
                {"srandom", address(seed_random)},
                {"drand48", address(random_double)},
                {"erand48", address(random_double_of)},
                {"lrand48", address(random_positive48)},
                {"mrand48", address(random_signed48)},
                {"srand48", address(seed_random48)},
                {"seed48", address(seed_random48_with)},
                {"strtok", address(split)},
                {"getopt", address(options)},
                {"getopt_long", address(options_long)},
                {"getopt_long_only", address(options_long_only)},
                {"getenv", address(variable)},
                {"secure_getenv", address(variable)},
                {"gethostname", address(host_name)},
                {"uname", address(system_name)},
                {"__tls_get_addr", address(thread_address)}});
}

}  // namespace

uint64_t time_of_day_ns() { return kDay_s * 1'000'000'000 + here().host().now_ns(); }

const void* find_replaced(std::string_view name) {
  static const Table table = [] {
    Table made;
    add_end(made);
    add_time(made);
    add_state(made);
    for (const auto& [called, function] : thread_functions()) made.emplace(called, function);
    return made;
  }();
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace tern::sim
