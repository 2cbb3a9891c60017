// A job's ranks on other hosts: how they are begun, what they say, and how they end. Their agents: agent.h.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "agent_command.h"
#include "hosts.h"
#include "job.h"
#include "output_files.h"
#include "process/launch/spawn_command.h"
#include "rank_setup.h"

namespace tern::mpiexec {
namespace {

// What has happened on one host may be known here before its cause on another is. So long the others may take to say
// what was before.
constexpr uint64_t kSync_ms = 500;
// A host kills what is left within two seconds (keeper_process.h). Then it sends records, and each piece prolongs this.
constexpr uint64_t kEndOfHost_ms = 4000;

// The folder of this process as the user names it: where folders are mounted on demand, only that name mounts them.
std::string own_folder() {
  const char* named = getenv("PWD");
  struct stat here {
  }, there{};
  if (named && *named == '/' && stat(named, &there) == 0 && stat(".", &here) == 0 && here.st_dev == there.st_dev &&
      here.st_ino == there.st_ino)
    return named;
  char* path = getcwd(nullptr, 0);
  const std::string folder = path ? path : "/";
  free(path);
  return folder;
}

std::string value_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (name_of_variable(entry) == name) return entry.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

bool Job::runs_here(size_t app) const {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (size_t(ranks_[rank].app) == app && !is_remote(int(rank))) return true;
  }
  return false;
}

JobText Job::text_for_agents() const {
  JobText text{job_id_, job_key_, process_mapping(places_.of_rank), own_folder()};
  for (const App& app : plan_.apps) {
    ProgramText program{app.command};
    const std::string& folder = app.directory;
    program.directory_given = !folder.empty();
    program.directory = folder.starts_with('/') ? folder : text.directory + (folder.empty() ? "" : "/" + folder);
    const Inheritance& inheritance = plan_.inheritance_of(app);
    for (const std::string& entry : base_environment(app)) {
      const std::string_view name = name_of_variable(entry);
      const bool given = has_variable(plan_.environment, name) || has_variable(app.environment, name);
      if (given || !belongs_to_one_host(name)) program.environment.push_back(entry);
    }
    if (const char* port = parents_ >= 0 ? getenv(kParentPortVariable) : nullptr)
      program.environment.push_back(fmt::format("{}={}", kParentPortVariable, port));
    program.own_names = inheritance.all ? std::vector<std::string>{"*"} : inheritance.names;
    const char* path = getenv("PATH");
    program.search_path = !app.search_path.empty() ? app.search_path : path ? path : "/usr/local/bin:/usr/bin:/bin";
    text.programs.push_back(std::move(program));
  }
  for (const Rank& rank : ranks_) text.program_of.push_back(uint32_t(rank.app));
  text.host_of = places_.of_rank;
  text.map_text = plan_.placement.map_text;
  text.bind_text = plan_.placement.bind_text;
  text.report_bindings = plan_.placement.report;
  text.verbose = plan_.verbose;
  text.threads = uint64_t(threads_per_rank());
  text.records = plan_.records();
  text.record_events = strtoull(value_in(plan_.environment, "TERN_RECORD_EVENTS").c_str(), nullptr, 10);
  text.input_rank = plan_.input_rank < 0 ? ~uint64_t{0} : uint64_t(plan_.input_rank);
  text.errors_in_file = has_output_file(plan_.files, STDERR_FILENO);
  return text;
}

// Until every other host can start its ranks. False: one cannot, which is said, or the job was ended.
bool Job::start_hosts() {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  std::string mistake;
  const AgentCommand command = agent_command([](const char* name) -> const char* { return getenv(name); },
                                             std::string(self, length > 0 ? size_t(length) : 0), mistake);
  hosts_ = std::make_unique<JobHosts>(places_, plan_.records() ? value_in(plan_.environment, "TERN_RECORD") : "");
  not_started_ = true;
  if (!mistake.empty()) {
    fail(2, mistake);
    return false;
  }
  if (!hosts_->start(command, text_for_agents(), argv_)) {
    fail(1, fmt::format("the agents on other hosts cannot be started: {}", strerror(errno)));
    return false;
  }
  if (plan_.verbose) {
    const size_t others = places_.names.size() - 1;
    tell(fmt::format("{} other host{}, reached by: {}", others, others == 1 ? "" : "s",
                     fmt::join(command_for(command, places_.names[1]), " ")));
  }
  watch(hosts_->descriptor(), Source::hosts, 0, EPOLLIN);
  while (!hosts_->all_ready() && !ending_) {
    update_watches();
    turn();
  }
  not_started_ = ending_;
  hosts_ready_ = !ending_;
  return hosts_ready_;
}

OutputPipe Job::remote_stream(int rank, int stream) {
  int file = -1;
  if (has_output_file(plan_.files, stream)) {
    std::string path, why;
    file = open_output_file(plan_.files, rank, int(ranks_.size()), stream, host_name(rank), path, why);
    if (file < 0) {
      not_started_ = true;
      fail(1, fmt::format("rank {} cannot be started: output file '{}': {}", rank, path, why));
    }
  }
  Sink* sink = stream == 1 ? &out_ : &err_;
  return {plan_.label ? fmt::format("[{}] ", rank) : "", is_in_file_alone(stream) ? nullptr : sink, file};
}

void Job::start_remote_ranks(int universe) {
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    if (!is_remote(rank)) continue;
    server_->set_remote(rank);
    for (int stream : {1, 2}) hosts_->add_stream(rank, stream, remote_stream(rank, stream));
    if (ending_) return;
  }
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    if (!is_remote(rank)) continue;
    ranks_[size_t(rank)].live = true;
    ++live_;
  }
  hosts_->start_ranks(universe, cores_.of_host);
}

void Job::on_hosts() {
  hosts_->on_events();
  std::vector<int> ended;
  bool some = sync_until_ms_ != 0;
  for (Frame frame; hosts_->next(frame); some = true) on_frame(frame, ended);
  if (!some) return;
  judge_all(std::move(ended));
  settle_aborts();
  release_remote();
  answer_parents();
  check_stuck();
  on_reports();
  watch_stall();
}

void Job::on_frame(const Frame& frame, std::vector<int>& ended) {
  Unpacker body(frame.body);
  switch (frame.kind) {
    case FrameKind::pmi:
      if (!hosts_->has_rank(frame)) return;
      if (const auto code = server_->take(frame.rank, frame.body)) abort_later(frame.rank, *code);
      while (const auto request = server_->take_spawn(frame.rank)) start_spawned(frame.rank, *request);
      return;
    case FrameKind::ended: return on_remote_end(frame, ended);
    case FrameKind::started:
      if (plan_.verbose && hosts_->has_rank(frame)) {
        const uint64_t process = body.number();
        const App& app = plan_.apps[size_t(ranks_[size_t(frame.rank)].app)];
        tell(fmt::format("rank {}: process {} on {}{}, {}", frame.rank, process, host_name(frame.rank), body.text(),
                         fmt::join(app.command, " ")));
      }
      return;
    case FrameKind::refused: {
      const int code = int(body.number());
      return fail(code, fmt::format("host '{}': {}", hosts_->name(frame.host), body.text()));
    }
    case FrameKind::lost: return lose_host(frame);
    case FrameKind::say: {
      std::istringstream lines(frame.body);
      const std::string host = frame.host == 0 ? "" : "host '" + hosts_->name(frame.host) + "': ";
      for (std::string line; std::getline(lines, line);) tell(host + line);
      return;
    }
    case FrameKind::looks: {
      std::vector<Look> looks;
      if (!unpack(frame.body, looks)) return;
      for (const Look& look : looks) {
        if (look.rank < remote_looks_.size()) remote_looks_[look.rank] = look;
      }
      return;
    }
    default: return;
  }
}

void Job::on_remote_end(const Frame& frame, std::vector<int>& ended) {
  Ended end;
  if (!hosts_->has_rank(frame) || !unpack(frame.body, end)) return;
  Rank& rank = ranks_[size_t(frame.rank)];
  if (!rank.live) return;
  rank.live = false;
  rank.status = end.status;
  rank.failure = end.error;
  rank.lack_memory = end.lack_memory;
  --live_;
  ended.push_back(frame.rank);
}

// With the host its ranks are gone. Of a host that was started by another, only that other is named.
void Job::lose_host(const Frame& frame) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (places_.of_rank[rank] != frame.host || !ranks_[rank].live) continue;
    ranks_[rank].live = false;
    ranks_[rank].status = W_EXITCODE(0, SIGKILL);
    --live_;
    server_->rank_ended(int(rank));
  }
  if (!frame.body.empty()) fail(1, frame.body);
}

void Job::release_remote() {
  if (const auto values = server_->take_release()) hosts_->release(*values);
}

void Job::answer_spawn(int rank, std::string_view failure) {
  if (is_remote(rank)) hosts_->send(rank, FrameKind::pmi_answer, PmiServer::spawn_answer(failure));
  else server_->answer_spawn(rank, failure);
}

void Job::ask_agents(FrameKind kind) {
  if (hosts_) hosts_->send_all(kind);
}

void Job::signal_all(int signal) {
  keeper_.signal_all(signal);
  if (hosts_) hosts_->signal_all(signal);
}

// "node1:2,node2:2", as -host takes it.
std::string Job::host_list() const {
  std::string list;
  for (uint32_t host = 0; host < places_.names.size(); ++host) {
    const int ranks = places_.ranks_on(host);
    if (ranks == 0) continue;
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host == 0 ? "localhost" : places_.names[host], ranks);
  }
  return list;
}

// On several hosts the cause may be a rank elsewhere whose death is not known here yet.
void Job::abort_later(int rank, int code) {
  if (!hosts_) return abort_asked(rank, code);
  if (has_aborted(rank)) return;
  aborts_.emplace_back(rank, code);
  if (sync_until_ms_ != 0) return;
  hosts_->sync();
  sync_until_ms_ = now_ms() + kSync_ms;
}

bool Job::has_aborted(int rank) const {
  return std::any_of(aborts_.begin(), aborts_.end(), [rank](const auto& one) { return one.first == rank; });
}

void Job::settle_aborts() {
  if (sync_until_ms_ == 0 || (!hosts_->all_synced() && now_ms() < sync_until_ms_)) return;
  sync_until_ms_ = 0;
  for (const auto& [rank, code] : std::exchange(aborts_, {})) abort_asked(rank, code);
}

// No rank is left there. Hosts say what they still have to say, and send records.
void Job::end_hosts() {
  if (!hosts_ready_) return;  // nothing was started there
  hosts_->end_all();
  while (!hosts_->all_over() && now_ms() < hosts_->heard_ms() + kEndOfHost_ms) {
    drop_at_ms_ = hosts_->heard_ms() + kEndOfHost_ms;  // turn() wakes up then
    update_watches();
    turn();
  }
  drop_at_ms_ = 0;
  if (const std::vector<std::string> silent = hosts_->not_over(); !silent.empty())
    tell(
        fmt::format("no answer from {}: whether all processes there have ended is not known", fmt::join(silent, ", ")));
}

}  // namespace tern::mpiexec
