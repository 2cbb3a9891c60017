#include "elsewhere.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "clock.h"
#include "engines.h"
#include "hosts.h"
#include "spawn.h"
#include "streams.h"

namespace tern::mpiexec {
namespace {

// Time for the engine to end its ranks after SIGTERM, on all hosts.
constexpr int kEngineGrace_s = 5;
// Time for the ranks to say what they wait for, and for the engine to pass it on.
constexpr int kReportTime_s = 2;
// Under another launcher a rank answers SIGUSR1 if this is set, and all engines pass that signal on to the ranks.
constexpr const char kHangReport[] = "TERN_HANG_REPORT";
constexpr size_t kMaxWaiting = 1 << 20;  // bytes that our reader has not taken, before the engine has to wait

/// One of the engine's output streams, with labels as mpiexec writes them.
class LabelledStream {
 public:
  LabelledStream(Dialect dialect, bool labelled, int descriptor)
      : dialect_(dialect), labelled_(labelled), sink_(descriptor) {}
  ~LabelledStream() { close_pipe(); }
  LabelledStream(const LabelledStream&) = delete;
  LabelledStream& operator=(const LabelledStream&) = delete;

  /// The engine's end; -1: errno.
  int open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    pipe_ = ends[0];
    fcntl(pipe_, F_SETFL, O_NONBLOCK);
    return ends[1];
  }
  bool wants_to_read() const { return pipe_ >= 0 && sink_.waiting() < kMaxWaiting; }
  bool wants_to_write() const { return sink_.waiting() > 0; }
  int pipe() const { return pipe_; }
  int sink() const { return sink_.descriptor(); }
  /// The exit code of the first rank that has failed, where the engine has told it; 0: none.
  int failure() const { return failure_; }
  void read_some() {
    char buffer[16384];
    const ssize_t n = read(pipe_, buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) {
      line_.append(buffer, size_t(n));
      size_t begin = 0;
      for (size_t end; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1) add(begin, end);
      line_.erase(0, begin);
    } else {
      if (!line_.empty()) add(0, line_.size());
      line_.clear();
      close_pipe();
    }
  }
  /// Nobody reads us any more: the engine gets SIGPIPE when it writes again.
  void write_some() {
    if (sink_.flush() != 0) close_pipe();
  }

 private:
  void add(size_t begin, size_t end) {
    const std::string_view line = std::string_view(line_).substr(begin, end - begin);
    if (dialect_ == Dialect::slurm && failure_ == 0) failure_ = failure_told_by_slurm(line);
    sink_.add((labelled_ ? with_our_label(dialect_, line) : std::string(line)) + "\n");
  }
  void close_pipe() {
    if (pipe_ >= 0) close(pipe_);
    pipe_ = -1;
  }

  Dialect dialect_;
  bool labelled_;
  Sink sink_;
  int failure_ = 0;
  int pipe_ = -1;
  std::string line_;  ///< begun, newline not seen yet
};

/// The engine as a child, because work is left when it has ended, it may have to be ended, or its labels are others.
class EngineChild {
 public:
  EngineChild(std::string file, const Engine& engine, const Plan& plan)
      : file_(std::move(file)), plan_(plan), dialect_(engine.dialect) {
    const bool relabel = plan.label && dialect_ != Dialect::hydra;
    for (int i : {0, 1}) {
      if (relabel || (i == 1 && dialect_ == Dialect::slurm))
        streams_[i] = std::make_unique<LabelledStream>(dialect_, relabel, i + 1);
    }
  }

  /// Its exit code. `arguments`: words for exec, null at the end.
  int run(char* const* arguments) {
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD}) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int ends[2] = {-1, -1};
    for (int i : {0, 1}) {
      if (streams_[i] && (ends[i] = streams_[i]->open()) < 0) return failed();
    }
    child_ = signals_ < 0 ? -1 : fork();
    if (child_ == 0) become_engine(arguments, ends, signals);
    for (int end : ends)
      if (end >= 0) close(end);
    const int code = child_ < 0 ? failed() : await();
    if (signals_ >= 0) close(signals_);
    return code;
  }

 private:
  int failed() const {
    say(fmt::format("{}: {}", file_, strerror(errno)));
    return 126;
  }
  [[noreturn]] void become_engine(char* const* arguments, const int* ends, const sigset_t& signals) {
    for (int i : {0, 1})
      if (ends[i] >= 0) dup2(ends[i], i + 1);
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    execv(file_.c_str(), arguments);
    _exit(failed());
  }

  int await() {
    if (plan_.timeout_s > 0) deadline_ms_ = int64_t(now_ms()) + int64_t{1000} * plan_.timeout_s;
    // A process that the engine leaves behind may hold its output: only until the engine has ended do we wait for it.
    while (!ended_ || std::any_of(std::begin(streams_), std::end(streams_),
                                  [](auto& stream) { return stream && stream->wants_to_write(); })) {
      if (deadline_ms_ >= 0 && int64_t(now_ms()) >= deadline_ms_) end_it();
      wait_once();
    }
    if (late_) return Plan::kTimeoutExitCode;
    const int code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
    return code != 0 && streams_[1] && streams_[1]->failure() != 0 ? streams_[1]->failure() : code;
  }

  /// First the ranks are asked what they do, then the engine has to end them, then it is killed.
  void end_it() {
    constexpr int kSteps[] = {SIGUSR1, SIGTERM, SIGKILL};
    if (!late_) {
      say(fmt::format("time is up after {} s (MPIEXEC_TIMEOUT or -timeout); ending the job", plan_.timeout_s));
      late_ = true;
      const char* wish = getenv(kHangReport);
      if (wish && std::strcmp(wish, "0") == 0) step_ = 1;
    }
    const int signal = kSteps[step_];
    kill(child_, signal);
    deadline_ms_ = int64_t(now_ms()) + 1000 * (signal == SIGUSR1 ? kReportTime_s : kEngineGrace_s);
    step_ = std::min(step_ + 1, 2);
  }

  void wait_once() {
    pollfd watched[5] = {{signals_, POLLIN, 0}};
    size_t count = 1;
    for (auto& stream : streams_) {
      if (!stream) continue;
      watched[count++] = {stream->wants_to_read() ? stream->pipe() : -1, POLLIN, 0};
      watched[count++] = {stream->wants_to_write() ? stream->sink() : -1, POLLOUT, 0};
    }
    const int64_t left_ms = deadline_ms_ < 0 ? -1 : std::max<int64_t>(0, deadline_ms_ - int64_t(now_ms()));
    poll(watched, count, int(std::min<int64_t>(left_ms, 1'000'000)));
    size_t at = 1;
    for (auto& stream : streams_) {
      if (!stream) continue;
      if (watched[at++].revents != 0) stream->read_some();
      if (watched[at++].revents != 0 || stream->wants_to_write()) stream->write_some();
    }
    take_signals();
  }

  void take_signals() {
    signalfd_siginfo signal;
    while (read(signals_, &signal, sizeof signal) == sizeof signal) {
      if (signal.ssi_signo != SIGCHLD) {
        if (signal.ssi_code <= 0) kill(child_, int(signal.ssi_signo));  // it gets the terminal's signals itself
      } else if (waitpid(child_, &status_, WNOHANG) == child_) {
        ended_ = true;
        deadline_ms_ = -1;
        for (auto& stream : streams_) {
          // What it has written before.
          for (uint64_t until_ms = now_ms() + 100; stream && stream->pipe() >= 0 && now_ms() < until_ms;) {
            pollfd more{stream->pipe(), POLLIN, 0};
            if (poll(&more, 1, 0) != 1) break;
            stream->read_some();
          }
        }
      }
    }
  }

  std::string file_;
  const Plan& plan_;
  Dialect dialect_;
  std::unique_ptr<LabelledStream> streams_[2];
  int signals_ = -1, status_ = 0;
  pid_t child_ = -1;
  bool ended_ = false, late_ = false;
  int step_ = 0;              ///< of end_it
  int64_t deadline_ms_ = -1;  ///< -1: none
};

std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::string own_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Programs that -path finds get their whole path: not every engine has such an option. 0, or the exit code.
int resolve_paths(Plan& plan) {
  for (App& app : plan.apps) {
    if (app.search_path.empty()) continue;
    std::string file;
    if (const int verdict = find_program(app.command[0], app.directory, app.search_path, file)) {
      say(fmt::format("program '{}' is not in -path {}", app.command[0], app.search_path));
      return verdict;
    }
    app.command[0] = file;
  }
  return 0;
}

int call(const Engine& engine, const std::string& file, const Plan& plan) {
  setenv(kHangReport, "1", 0);
  EngineCommand command = translate(plan, engine, own_name(), own_variables(), geteuid() == 0);
  if (plan.verbose) say(fmt::format("handing over to: {}", fmt::join(command.words, " ")));
  if (!command.ignored.empty())
    say(fmt::format("{} starts the ranks, and has nothing for {}: ignored", engine.program,
                    fmt::join(command.ignored, ", ")));
  if (!plan.batch_system.empty()) {
    const auto many = [](size_t count, const char* what) {
      return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
    };
    say(fmt::format("{} on the {} of {}'s allocation, started by {} (-here: on this machine)",
                    many(size_t(plan.ranks()), "rank"), many(plan.hosts.size(), "host"), plan.batch_system,
                    engine.program));
  }
  for (const std::string& entry : command.environment) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (auto& word : command.words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (plan.records() || plan.timeout_s > 0 || plan.label || engine.dialect == Dialect::slurm)
    return EngineChild(file, engine, plan).run(arguments.data());
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  execv(file.c_str(), arguments.data());
  say(fmt::format("{}: {}", file, strerror(errno)));
  return 126;
}

constexpr std::string_view kOwnWay = "ssh";

std::string_view launcher_wish() {
  const char* wish = getenv(kLauncherVariable);
  return wish && names_launcher(wish) ? wish : "";
}

// Those to look for in PATH; only the named one, if one is named.
std::vector<Engine> wanted_engines() {
  const std::string_view wish = launcher_wish();
  std::vector<Engine> list = engines();
  if (wish == "srun") list = {{"srun", Dialect::slurm}};
  else if (wish == "flux") list = {{"flux", Dialect::flux}};
  else if (!wish.empty()) std::erase_if(list, [wish](const Engine& engine) { return wish != engine.program; });
  return list;
}

void unsetenv_if_ours() {
  if (!launcher_wish().empty()) unsetenv(kLauncherVariable);
}

}  // namespace

bool names_launcher(std::string_view value) {
  for (std::string_view one :
       {kOwnWay, std::string_view("srun"), std::string_view("flux"), std::string_view("prterun"),
        std::string_view("mpirun.openmpi"), std::string_view("mpiexec.hydra"), std::string_view("mpiexec.mpich")}) {
    if (value == one) return true;
  }
  return false;
}

bool engine_is_there() {
  const std::string_view wish = launcher_wish();
  if (!wish.empty()) return wish != kOwnWay;
  if (getenv("TERN_AGENT")) return false;
  std::string file;
  const std::vector<Engine> list = engines();
  return std::any_of(list.begin(), list.end(),
                     [&file](const Engine& engine) { return find_program(engine.program, "", "", file) == 0; });
}

int run_elsewhere(const Plan& given) {
  Plan plan = given;
  for (const Engine& engine : wanted_engines()) {
    std::string file;
    if (find_program(engine.program, "", "", file) != 0) continue;
    // For programs the variable has other values.
    unsetenv_if_ours();
    if (!hosts_are_known(plan, engine.dialect)) return 2;
    if (const int code = resolve_paths(plan)) return code;
    return call(engine, file, plan);
  }
  say(fmt::format("{}={} names a launcher that is not in PATH; {}=ssh needs none", kLauncherVariable,
                  getenv(kLauncherVariable), kLauncherVariable));
  return 1;
}

}  // namespace tern::mpiexec
