#include "front.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "line_editor.h"
#include "mi.h"
#include "mpiexec/ranges.h"

namespace tern::debug {
namespace {

// Ctrl-C comes only inside ppoll: one that came between the look at this and the sleep would be slept over.
volatile sig_atomic_t interrupted = 0;
sigset_t while_listening;  ///< the signals that are blocked then
void note_interrupt(int) { interrupted = 1; }

/// The gdb of one rank.
struct Rank {
  int socket = -1;      ///< -1: gone
  pid_t process = 0;    ///< of gdb
  std::string arrived;  ///< not yet a whole line
  std::string said;     ///< for the user, not yet printed
  bool starts = true;   ///< gdb has not asked for a command yet
  long command = 0;     ///< the number of the one that it has not answered; 0: none
  bool runs = false;    ///< its program does

  bool settled(bool waits) const { return socket < 0 || (!starts && command == 0 && !(waits && runs)); }
};

class Front {
 public:
  Front(int listener, int ranks, pid_t job) : listener_(listener), job_(job), ranks_(size_t(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) chosen_.push_back(rank);
  }

  int run() {
    if (!await_ranks()) return end_job(false);
    settle(chosen_, true);
    std::string line;
    while (read_line(line)) {
      if (!obey(line)) break;
    }
    for (Rank& rank : ranks_) send(rank, "-gdb-exit\n");
    return end_job(true);
  }

 private:
  bool terminal() const { return isatty(STDIN_FILENO) != 0; }

  // --- The job.
  bool job_is_over() {
    if (job_status_ < 0 && waitpid(job_, &status_, WNOHANG) == job_) job_status_ = status_;
    return job_status_ >= 0;
  }
  int end_job(bool ended) {
    constexpr int kPatience_ms = 3000, kStep_ms = 20;  // ranks that gdb has killed are gone at once
    for (int ms = 0; ended && ms < kPatience_ms && !job_is_over(); ms += kStep_ms) usleep(kStep_ms * 1000);
    if (!job_is_over()) kill(job_, SIGTERM);
    while (!job_is_over()) usleep(kStep_ms * 1000);
    return WIFEXITED(job_status_) ? WEXITSTATUS(job_status_) : 128 + WTERMSIG(job_status_);
  }
  /// False: the job has ended before.
  bool await_ranks() {
    size_t there = 0;
    constexpr int kLook_ms = 100;  // whether the job still runs
    while (there < ranks_.size()) {
      pollfd waits{listener_, POLLIN, 0};
      if (poll(&waits, 1, kLook_ms) <= 0) {
        if (job_is_over()) return false;
        continue;
      }
      const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) there += welcome(socket);
    }
    close(listener_);
    return true;
  }
  /// Its first line says which rank it is. 1: it is one.
  size_t welcome(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    std::string hello;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()) {
      for (char next; hello.size() < 64 && read(socket, &next, 1) == 1 && next != '\n';) hello += next;
    }
    int rank = -1, process = 0;
    if (std::sscanf(hello.c_str(), "%d %d", &rank, &process) != 2 || rank < 0 || size_t(rank) >= ranks_.size() ||
        ranks_[size_t(rank)].socket >= 0) {
      close(socket);
      return 0;
    }
    ranks_[size_t(rank)].socket = socket;
    ranks_[size_t(rank)].process = process;
    return 1;
  }

  // --- What the gdbs say.
  void take(Rank& rank) {
    char piece[8192];
    const ssize_t got = read(rank.socket, piece, sizeof piece);
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      close(rank.socket);
      rank.socket = -1;
      return;
    }
    rank.arrived.append(piece, size_t(got));
    size_t at = 0;
    for (size_t end; (end = rank.arrived.find('\n', at)) != rank.arrived.npos; at = end + 1)
      note(rank, parse_mi(std::string_view(rank.arrived).substr(at, end - at)));
    rank.arrived.erase(0, at);
  }
  static void note(Rank& rank, const MiLine& line) {
    switch (line.kind) {
      case MiLine::Kind::text: rank.said += line.text; break;
      case MiLine::Kind::error: rank.said += line.text + "\n"; break;
      case MiLine::Kind::running: rank.runs = true; break;
      case MiLine::Kind::stopped: rank.runs = false; break;
      case MiLine::Kind::prompt: rank.starts = false; break;
      default: break;
    }
    if (line.command != 0 && line.command == rank.command) rank.command = 0;
  }
  static void send(Rank& rank, const std::string& text) {
    if (rank.socket < 0) return;
    for (size_t at = 0; at < text.size();) {
      const ssize_t sent = ::send(rank.socket, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;
      at += size_t(std::max<ssize_t>(sent, 0));
    }
  }
  /// Waits for something from the gdbs, and from the user if `input`. True: the user has typed.
  bool listen(bool input) {
    std::vector<pollfd> waits;
    std::vector<size_t> whose;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].socket < 0) continue;
      waits.push_back({ranks_[rank].socket, POLLIN, 0});
      whose.push_back(rank);
    }
    if (input) waits.push_back({STDIN_FILENO, POLLIN, 0});
    if (ppoll(waits.data(), waits.size(), nullptr, &while_listening) < 0) return false;  // a signal
    for (size_t i = 0; i < whose.size(); ++i) {
      if (waits[i].revents != 0) take(ranks_[whose[i]]);
    }
    return input && waits.back().revents != 0;
  }
  /// Until all of them have answered, and have stopped again if `waits`. Then prints what was said.
  void settle(const std::vector<int>& ranks, bool waits) {
    const auto settled = [&](int rank) { return ranks_[size_t(rank)].settled(waits); };
    while (!std::all_of(ranks.begin(), ranks.end(), settled)) {
      listen(false);
      stop_if_asked();
    }
    print_said();
  }
  void stop_if_asked() {
    if (interrupted == 0) return;
    interrupted = 0;
    for (const Rank& rank : ranks_) {
      if (rank.socket >= 0 && rank.runs) kill(rank.process, SIGINT);
    }
  }
  std::string take_said() {
    std::vector<std::string> texts;
    for (Rank& rank : ranks_) texts.push_back(std::exchange(rank.said, {}));
    return folded(texts);
  }
  void print_said() {
    std::fputs(take_said().c_str(), stdout);
    std::fflush(stdout);
  }

  // --- The user.
  void prompt() {
    if (!terminal()) return;
    const std::string text = fmt::format("(gdb {}) ", mpiexec::ranges(chosen_));
    if (editor_) return editor_->begin(text);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  // Ranks that went on alone have stopped.
  void tell(const std::string& text) {
    if (editor_) return editor_->print_above(text);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);  // where there is no terminal there is no prompt
    prompt();
  }
  /// False: the input has ended.
  bool read_line(std::string& line) {
    prompt();
    while (true) {
      if (const size_t end = typed_.find('\n'); end != typed_.npos) {
        line = typed_.substr(0, end);
        typed_.erase(0, end + 1);
        return true;
      }
      const bool typed = listen(true);
      if (typed && editor_) {
        const LineEditor::Taken taken = editor_->take(line);
        if (taken == LineEditor::Taken::ended) std::fputs("\n", stdout);
        if (taken != LineEditor::Taken::part) return taken == LineEditor::Taken::line;
      } else if (typed) {
        char piece[4096];
        const ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
        if (got <= 0) return false;
        typed_.append(piece, size_t(got));
      }
      stop_if_asked();
      const bool quiet = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.settled(true); });
      if (const std::string text = quiet ? take_said() : std::string(); !text.empty()) tell(text);
      if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.socket < 0; })) return false;
    }
  }
  /// False: the user wants to end.
  bool obey(std::string line) {
    const auto trim = [&] {
      while (!line.empty() && line.back() == ' ') line.pop_back();
      line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    };
    trim();
    std::vector<int> to = chosen_;
    if (line.starts_with('@')) {
      const size_t blank = std::min(line.find(' '), line.size());
      if (!parse_ranks(line.substr(1, blank - 1), int(ranks_.size()), to)) {
        fmt::print("'{}' names no ranks of this job: write @0,2-3 or @all\n", line.substr(0, blank));
        return true;
      }
      line.erase(0, blank);
      trim();
      if (line.empty()) chosen_ = to;
    }
    bool waits = true;
    if (line.ends_with('&')) {
      waits = false;
      line.pop_back();
      trim();
    }
    if (line.empty()) return true;
    if (line == "quit" || line == "q" || line == "exit") return false;
    std::vector<int> busy;
    std::erase_if(to, [&](int rank) {
      const Rank& r = ranks_[size_t(rank)];
      if (r.socket >= 0 && r.runs) busy.push_back(rank);
      return r.socket < 0 || r.runs;
    });
    if (!busy.empty()) fmt::print("[{}] is running; Ctrl-C stops it\n", mpiexec::ranges(busy));
    ++commands_;
    for (const int rank : to) {
      ranks_[size_t(rank)].command = commands_;
      send(ranks_[size_t(rank)], mi_command(commands_, line));
    }
    settle(to, waits);
    return true;
  }

  int listener_;
  pid_t job_;
  int status_ = 0, job_status_ = -1;
  std::vector<Rank> ranks_;
  std::vector<int> chosen_;
  std::string typed_;
  std::unique_ptr<LineEditor> editor_ = LineEditor::load();  ///< null: the terminal's own
  long commands_ = 0;
};

}  // namespace

int run_front(int listener, int ranks, pid_t job) {
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, &while_listening);
  return Front(listener, ranks, job).run();
}

}  // namespace tern::debug
