#include "pmi_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tern::mpiexec {
namespace {
// As Hydra's.
constexpr int kKeyMax = 64;
constexpr int kValueMax = 1024;
// No command is this long; a rank that sends so much without a newline does not use PMI.
constexpr size_t kLineMax = 1 << 16;
}  // namespace

PmiServer::PmiServer(std::string job_id, std::vector<int> app_of, int universe_size, std::string mapping)
    : job_id_(std::move(job_id)),
      app_of_(std::move(app_of)),
      universe_size_(universe_size),
      mapping_(std::move(mapping)),
      peers_(app_of_.size()),
      process_numbers_(process_numbers()) {
  values_["PMI_process_mapping"] = mapping_;
}

PmiServer::~PmiServer() {
  for (auto& peer : peers_) close_peer(peer);
}

void PmiServer::close_peer(Peer& peer) {
  if (peer.descriptor >= 0) close(peer.descriptor);
  peer.descriptor = -1;
  peer.unsent.clear();
}

int PmiServer::open(int rank) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  peers_[size_t(rank)].descriptor = ends[0];
  return ends[1];
}

std::optional<int> PmiServer::serve(int rank) {
  Peer& peer = peers_[size_t(rank)];
  std::optional<int> abort_code;
  char buffer[16384];
  while (peer.descriptor >= 0) {
    ssize_t n = recv(peer.descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      // No process holds the rank's end any more. The rank may continue without MPI; its parent, this process, sees
      // its end.
      close_peer(peer);
      return abort_code;
    }
    peer.incoming.append(buffer, size_t(n));
    std::string_view line;
    while (peer.incoming.next(line)) {
      if (auto code = handle(rank, line); code && !abort_code) abort_code = code;
    }
    if (abort_code) peer.abort_code = abort_code;
    if (peer.incoming.pending() > kLineMax) return 1;
    if (size_t(n) < sizeof buffer) break;
  }
  flush(rank);
  return abort_code;
}

void PmiServer::flush(int rank) {
  Peer& peer = peers_[size_t(rank)];
  while (peer.descriptor >= 0 && !peer.unsent.empty()) {
    ssize_t n = send(peer.descriptor, peer.unsent.data(), peer.unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return close_peer(peer);
    peer.unsent.erase(0, size_t(n));
  }
}

std::optional<int> PmiServer::rank_ended(int rank) {
  Peer& peer = peers_[size_t(rank)];
  serve(rank);
  peer.ended = true;
  if (peer.in_barrier) --in_barrier_;
  peer.in_barrier = false;
  close_peer(peer);
  return peer.abort_code;
}

int PmiServer::first_ended() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].ended) return int(rank);
  }
  return -1;
}

int PmiServer::stuck_rank() const {
  if (in_barrier_ == 0 || first_ended() < 0) return -1;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].in_barrier) return int(rank);
  }
  return -1;
}

void PmiServer::enter_barrier(int rank) {
  if (!peers_[size_t(rank)].in_barrier) ++in_barrier_;
  peers_[size_t(rank)].in_barrier = true;
  if (upstream_ || size_t(in_barrier_) < peers_.size()) return;
  if (some_remote_) release_ = std::exchange(fresh_, {});
  release();
}

void PmiServer::release() {
  in_barrier_ = 0;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (std::exchange(peer.in_barrier, false)) answer(peer, "cmd=barrier_out");
    flush(int(rank));
  }
}

void PmiServer::set_remote(int rank) {
  peers_[size_t(rank)].remote = true;
  some_remote_ = true;
}

std::optional<int> PmiServer::take(int rank, std::string_view line) {
  const std::optional<int> code = handle(rank, line);
  if (code) peers_[size_t(rank)].abort_code = code;
  return code;
}

void PmiServer::store(std::string_view entry) {
  const size_t blank = entry.find(' ');
  if (blank == std::string_view::npos) return;
  values_.insert_or_assign(std::string(entry.substr(0, blank)), std::string(entry.substr(blank + 1)));
}

void PmiServer::pass_on(int rank, std::string_view line) {
  Peer& peer = peers_[size_t(rank)];
  if (peer.descriptor < 0) return;
  answer(peer, line);
  flush(rank);
}

// The others are answered here.
void PmiServer::pass_up(int rank, std::string_view text, std::string_view command) {
  if (!upstream_) return;
  const Peer& peer = peers_[size_t(rank)];
  constexpr std::string_view kOfAll[] = {"put", "barrier_in", "init", "tern_init_failed", "finalize", "abort"};
  bool of_all = peer.program || text == "mcmd=spawn" || command.starts_with("tern_");
  for (std::string_view one : kOfAll) of_all = of_all || command == one;
  // A rank that nobody can ask here is nobody that could be asked.
  if (command == "tern_hello" && peer.report.signal() == 0) return;
  if (of_all) upstream_(rank, text);
}

// More than PMI-1 asks for: our client finds the answers to its opening questions here, others ignore these
// fields.
std::string PmiServer::opening_answer(int rank, const PmiLine& line) const {
  if (line.number("pmi_version", 1) != 1) {
    return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1 msg=only_PMI_version_1_is_spoken_here";
  }
  return fmt::format(
      "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 kvsname={} appnum={} universe_size={} "
      "keylen_max={} vallen_max={} mapping={}",
      job_id_, app_of_[size_t(rank)], universe_size_, kKeyMax, kValueMax, mapping_);
}

std::string PmiServer::stored(const PmiLine& line) {
  std::string_view key = line["key"], value = line["value"];
  if (key.empty() || key.size() > size_t(kKeyMax) || value.size() > size_t(kValueMax)) {
    return "cmd=put_result rc=-1 msg=key_or_value_too_long";
  }
  values_.insert_or_assign(std::string(key), std::string(value));
  if (some_remote_) fresh_.push_back(fmt::format("{} {}", key, value));
  return "cmd=put_result rc=0 msg=success";
}

std::string PmiServer::found(const PmiLine& line) const {
  auto at = values_.find(line["key"]);
  if (at == values_.end()) return fmt::format("cmd=get_result rc=-1 msg=key_{}_not_found value=unknown", line["key"]);
  return fmt::format("cmd=get_result rc=0 msg=success value={}", at->second);
}

bool PmiServer::all_were_inside() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.initialised; });
}

bool PmiServer::some_inside() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& p) { return p.initialised && !p.finalised && !p.ended; });
}

bool PmiServer::some_called_init() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.initialised || peer.init_failed; });
}

// One line of "mcmd=spawn ... endcmd": a field, whose value may have blanks.
void PmiServer::collect(Peer& peer, std::string_view text) {
  SpawnProgram& program = *peer.program;
  const size_t equals = text.find('=');
  std::string_view name = text.substr(0, equals);
  std::string value(equals == std::string_view::npos ? "" : text.substr(equals + 1));
  if (name.starts_with(kEscapedField)) {
    name.remove_prefix(kEscapedField.size());
    value = unescape_line_breaks(value);
  }
  if (name == "nprocs") {
    program.ranks = std::max(1, atoi(value.c_str()));
  } else if (name == "execname") {
    program.command = value;
  } else if (name.starts_with("arg") && name != "argcnt") {
    program.arguments.push_back(value);
  } else if (name.starts_with("preput_val_")) {
    peer.spawning.parent_port = value;
  } else if (name.starts_with("info_key_")) {
    peer.info_key = value;
  } else if (name.starts_with("info_val_")) {
    if (peer.info_key == "wdir") program.directory = value;
    if (peer.info_key == "path") program.search_path = value;
    if (peer.info_key == "host") program.host = value;
    if (peer.info_key == "env") program.environment.push_back(value);
  } else if (name == "totspawns") {
    peer.programs_wanted = atoi(value.c_str());
  } else if (name == "endcmd") {
    peer.spawning.programs.push_back(std::move(program));
    peer.program.reset();
    if (int(peer.spawning.programs.size()) < peer.programs_wanted) return;
    peer.spawn = std::exchange(peer.spawning, {});
  }
}

std::string PmiServer::spawn_answer(std::string_view failure) {
  return failure.empty() ? "cmd=spawn_result rc=0"
                         : fmt::format("cmd=spawn_result rc=-1 reason={}", url_safe_base64(failure));
}

void PmiServer::answer_spawn(int rank, std::string_view failure) { pass_on(rank, spawn_answer(failure)); }

std::optional<int> PmiServer::handle(int rank, std::string_view text) {
  Peer& peer = peers_[size_t(rank)];
  PmiLine line(text);
  std::string_view command = line.command();
  // Where a remote rank's process can be asked, its agent knows.
  const bool report = !peer.program && command.starts_with("tern_") &&
                      peer.report.take(text, peer.remote ? uint64_t(line.number("pids", 0)) : process_numbers_);
  pass_up(rank, text, command);
  if (report) return std::nullopt;
  if (peer.program) {
    collect(peer, text);
  } else if (text == "mcmd=spawn") {
    peer.program.emplace();
  } else if (command == "get") {
    answer(peer, found(line));
  } else if (command == "put") {
    answer(peer, stored(line));
  } else if (command == "barrier_in") {
    enter_barrier(rank);
  } else if (command == "init") {
    peer.initialised = true;
    peer.finalised = peer.init_failed = false;  // a script may run one MPI program after another
    answer(peer, opening_answer(rank, line));
  } else if (command == "tern_init_failed") {
    peer.init_failed = true;
  } else if (command == "finalize") {
    peer.finalised = true;
    answer(peer, "cmd=finalize_ack");
  } else if (command == "abort") {
    return int(line.number("exitcode", 1));
  } else if (command == "get_maxes") {
    answer(peer, fmt::format("cmd=maxes kvsname_max=256 keylen_max={} vallen_max={}", kKeyMax, kValueMax));
  } else if (command == "get_appnum") {
    answer(peer, fmt::format("cmd=appnum appnum={}", app_of_[size_t(rank)]));
  } else if (command == "get_universe_size") {
    answer(peer, fmt::format("cmd=universe_size size={}", universe_size_));
  } else if (command == "get_my_kvsname") {
    answer(peer, fmt::format("cmd=my_kvsname kvsname={}", job_id_));
  } else {
    // Name publishing (publish_name, ...) is not offered.
    answer(peer, fmt::format("cmd={}_result rc=-1 msg=not_supported", command));
  }
  return std::nullopt;
}

}  // namespace tern::mpiexec
