// PMI-1, the client: Hydra, Slurm's pmi2 (which serves PMI-1 on request) and our own mpiexec.
//
//   rank                                        server
//   cmd=init pmi_version=1 pmi_subversion=1  -> cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//   cmd=get_maxes                            -> cmd=maxes vallen_max= ...
//   cmd=get_appnum, cmd=get_universe_size, cmd=get_my_kvsname      likewise
//   cmd=put kvsname= key= value=             -> cmd=put_result rc=0
//   cmd=barrier_in                           -> cmd=barrier_out         (when all are in)
//   cmd=get kvsname= key=                    -> cmd=get_result rc=0 value=
//   cmd=finalize                             -> cmd=finalize_ack
//   cmd=abort exitcode=                         (no answer)
//   mcmd=spawn, a line for each field, endcmd -> cmd=spawn_result rc=0  (for each program; one answer)
// The key PMI_process_mapping is the server's own.
//
// Our mpiexec answers the opening questions in response_to_init already, in fields that other servers do not send.
// Values go as URL-safe base64 in chunks: the key "tern<rank>-<key>" holds "<length>.<first chunk>", the key
// "tern<rank>.<n>-<key>" the n-th further chunk, so that any bytes of any length pass.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "base/assert.h"
#include "process/launch/clients.h"
#include "process/launch/pmi_text.h"
#include "process/launch/rank_report.h"
#include "process/launch/spawn_command.h"
#include "process/launch/start_info.h"

namespace tern {
namespace {

// Time for the server's first answer. A descriptor that is not PMI never answers; a loaded launcher of thousands of
// ranks may take seconds.
constexpr int kFirstAnswer_ms = 20'000;
// The wait is divided into slices: while this process (and perhaps the server) is stopped, by Ctrl-Z or in a paused
// container, at most one slice of that time counts.
constexpr int kSlice_ms = 500;
// Slurm reads a request into 1024 bytes and splits longer ones, although it grants values of 1024.
constexpr size_t kLineMax = 1000;
constexpr std::string_view kParentKey = "tern-parent";
constexpr int kBase64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

std::string encode(std::string_view value) {
  std::string text(sodium_base64_ENCODED_LEN(value.size(), kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(value.data()), value.size(),
                    kBase64);
  text.pop_back();  // the terminating null
  return text;
}

bool decode(std::string_view text, std::string& value) {
  value.resize(text.size());
  size_t length = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(value.data()), value.size(), text.data(), text.size(), nullptr,
                        &length, &end, kBase64) != 0 ||
      end != text.data() + text.size()) {
    return false;
  }
  value.resize(length);
  return true;
}

class Pmi1 final : public Launcher {
 public:
  explicit Pmi1(int descriptor, std::string origin) : descriptor_(descriptor), origin_(std::move(origin)) {}
  ~Pmi1() override {
    if (descriptor_ >= 0) close(descriptor_);
  }

  /// Rank and size, from the environment (PMI_FD) or from the server's answer (PMI_PORT); then the opening
  /// questions.
  Error open(bool by_port);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int universe_size() const override { return universe_size_; }
  int app_number() const override { return app_number_; }
  std::string_view job_id() const override { return job_id_; }
  std::vector<int> local_ranks() const override { return local_ranks_; }
  int nodes() const override { return nodes_; }
  int descriptor() const override { return descriptor_; }
  int report_descriptor() const override { return is_ours() ? descriptor_ : -1; }

  Error put(std::string_view key, std::string_view value) override;
  Error fence() override {
    std::string answer;
    return ask("cmd=barrier_in", "barrier_out", answer);
  }
  Error get(int rank, std::string_view key, std::string& value) override;
  Error enter_barrier() override {
    barrier_pending_ = true;
    return send("cmd=barrier_in");
  }
  bool barrier_is_over(Error& error) override;
  void abort(int code, std::string_view message) override;
  Error begin_spawn(const SpawnRequest& request) override;
  bool spawn_is_over(Error& error) override;
  std::string parent_port() const override { return parent_port_; }
  Error finalize() override;

 private:
  Error broken(std::string_view what) const {
    return Error(ErrorClass::other, fmt::format("the launcher ({}) {}", origin_, what));
  }
  Error send(std::string line);
  Error receive(int flags, bool& nothing);
  Error read_line(std::string& line, int timeout_ms);
  bool take_notice(std::string_view line);
  bool await_notice(const bool& pending, Error& error);
  Error expect(std::string_view answer, std::string_view expected) const;
  Error ask(std::string line, std::string_view expected, std::string& answer, int timeout_ms = -1);
  Error learn_identity_by_port();
  Error learn_rest(const PmiLine& opening);
  Error learn_neighbours(std::string_view mapping);
  bool pass_on(std::string_view message);
  Error learn_parent();
  bool is_ours() const {
    const char* id = getenv("TERN_JOB_ID");
    return id && job_id_ == id;
  }
  Error put_one(std::string_view key, std::string_view value);
  Error get_one(std::string_view key, std::string& value);
  std::string full_key(int rank, std::string_view key, size_t chunk) const {
    return chunk == 0 ? fmt::format("tern{}-{}", rank, key) : fmt::format("tern{}.{}-{}", rank, chunk, key);
  }

  int descriptor_;
  std::string origin_;  ///< for messages: "PMI-1 on descriptor 7"
  PmiLines incoming_;
  int rank_ = -1;
  int size_ = 0;
  int universe_size_ = -1;
  int app_number_ = -1;
  long value_max_ = 1024;
  std::string space_;  ///< the server's name for the key-value space
  std::string job_id_;
  std::vector<int> local_ranks_;
  int nodes_ = 0;
  std::string parent_port_;
  bool barrier_pending_ = false;  ///< entered by enter_barrier, its end not read yet
  bool spawn_pending_ = false;    ///< the answer to begin_spawn was not read yet
  Error spawn_failure_;           ///< the answer to begin_spawn
};

Error Pmi1::send(std::string line) {
  line += '\n';
  size_t sent = 0;
  while (sent < line.size()) {
    ssize_t n = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return broken(fmt::format("is gone: {}", strerror(errno)));
    sent += size_t(n);
  }
  return {};
}

// One read. `nothing`: there was nothing to read.
Error Pmi1::receive(int flags, bool& nothing) {
  char buffer[4096];
  ssize_t n = recv(descriptor_, buffer, sizeof buffer, flags);
  nothing = n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
  if (nothing) return {};
  if (n < 0) return broken(fmt::format("is gone: {}", strerror(errno)));
  if (n == 0) return broken("is gone: it closed the connection");
  incoming_.append(buffer, size_t(n));
  return {};
}

Error Pmi1::read_line(std::string& line, int timeout_ms) {
  std::string_view found;
  int waited_ms = 0;
  while (!incoming_.next(found)) {
    pollfd wait{descriptor_, POLLIN, 0};
    int ready = timeout_ms < 0 ? 1 : poll(&wait, 1, kSlice_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      waited_ms += kSlice_ms;
      if (waited_ms < timeout_ms) continue;
      return broken(fmt::format("does not answer within {} s", timeout_ms / 1000));
    }
    bool nothing;
    if (Error error = receive(0, nothing)) return error;
  }
  line = found;
  return {};
}

Error Pmi1::ask(std::string line, std::string_view expected, std::string& answer, int timeout_ms) {
  if (Error error = send(std::move(line))) return error;
  do {
    if (Error error = read_line(answer, timeout_ms)) return error;
  } while (expected != PmiLine(answer).command() && take_notice(answer));
  return expect(answer, expected);
}

// Requests made without waiting may be answered while this rank asks something else.
bool Pmi1::take_notice(std::string_view line) {
  const PmiLine parsed(line);
  if (barrier_pending_ && parsed.command() == "barrier_out") {
    barrier_pending_ = false;
    return true;
  }
  if (!spawn_pending_ || parsed.command() != "spawn_result") return false;
  spawn_pending_ = false;
  if (parsed.number("rc", 0) == 0) return true;
  std::string reason;
  if (!parsed.has("reason") || !decode(parsed["reason"], reason))
    reason = fmt::format("the launcher ({}) says: {}", origin_, line);
  spawn_failure_ = Error(ErrorClass::spawn, std::move(reason));
  return true;
}

// Whether `pending` is over, without waiting. After an error that is never known.
bool Pmi1::await_notice(const bool& pending, Error& error) {
  std::string_view line;
  while (pending) {
    if (incoming_.next(line)) {
      if (take_notice(line)) continue;
      error = broken(fmt::format("says '{}', which was not asked for", line));
      return true;
    }
    bool nothing = false;
    error = receive(MSG_DONTWAIT, nothing);
    if (error) return true;
    if (nothing) return false;
  }
  return true;
}

Error Pmi1::expect(std::string_view answer, std::string_view expected) const {
  if (PmiLine(answer).command() == expected) return {};
  return broken(fmt::format("answers '{}' where {} was due", answer, expected));
}

bool Pmi1::barrier_is_over(Error& error) { return await_notice(barrier_pending_, error); }

// A field for each line, since arguments may have blanks. Our mpiexec takes those with line breaks, too; the protocol
// has no way for them.
Error Pmi1::begin_spawn(const SpawnRequest& request) {
  std::string text;
  bool broken_line = false;
  auto field = [&](std::string_view name, std::string_view value) {
    const bool breaks = value.find('\n') != std::string_view::npos;
    broken_line |= breaks;
    text += breaks ? fmt::format("{}{}={}\n", kEscapedField, name, escape_line_breaks(value))
                   : fmt::format("{}={}\n", name, value);
  };
  for (size_t i = 0; i < request.programs.size(); ++i) {
    const SpawnProgram& program = request.programs[i];
    text += "mcmd=spawn\n";
    field("nprocs", std::to_string(program.ranks));
    field("execname", program.command);
    field("totspawns", std::to_string(request.programs.size()));
    field("spawnssofar", std::to_string(i + 1));
    field("argcnt", std::to_string(program.arguments.size()));
    for (size_t a = 0; a < program.arguments.size(); ++a) field(fmt::format("arg{}", a + 1), program.arguments[a]);
    field("preput_num", "1");
    field("preput_key_0", kParentKey);
    field("preput_val_0", request.parent_port);
    std::vector<std::pair<std::string_view, std::string_view>> infos;
    if (!program.directory.empty()) infos.emplace_back("wdir", program.directory);
    if (!program.search_path.empty()) infos.emplace_back("path", program.search_path);
    if (!program.host.empty()) infos.emplace_back("host", program.host);
    for (const std::string& entry : program.environment) {
      // Others' launchers have no use for what our mpiexec tells its ranks.
      if (is_ours() || !entry.starts_with(kStartInfoVariable)) infos.emplace_back("env", entry);
    }
    field("info_num", std::to_string(infos.size()));
    for (size_t k = 0; k < infos.size(); ++k) {
      field(fmt::format("info_key_{}", k), infos[k].first);
      field(fmt::format("info_val_{}", k), infos[k].second);
    }
    text += i + 1 < request.programs.size() ? "endcmd\n" : "endcmd";
  }
  if (broken_line && !is_ours())
    return Error(ErrorClass::spawn,
                 fmt::format("'{}', or an argument of it, has a line break, which this launcher ({}) does not pass on. "
                             "Start the program with Tern's mpiexec",
                             request.programs[0].command, origin_));
  spawn_failure_ = {};
  spawn_pending_ = true;
  return send(std::move(text));
}

bool Pmi1::spawn_is_over(Error& error) {
  if (!await_notice(spawn_pending_, error)) return false;
  if (!error) error = std::move(spawn_failure_);
  return true;
}

// Our mpiexec passes the port in the environment, other launchers in the key-value space.
Error Pmi1::learn_parent() {
  const char* ours = getenv(kParentPortVariable);
  if (ours && is_ours()) parent_port_ = ours;
  if (ours || environment_number("PMI_SPAWNED", 0) == 0) return {};
  std::string port;
  if (Error error = get_one(kParentKey, port)) return {};  // spawned by another library's program
  parent_port_ = std::move(port);
  return {};
}

Error Pmi1::learn_identity_by_port() {
  if (Error error = send(fmt::format("cmd=initack pmiid={}", environment_number("PMI_ID", 0)))) return error;
  std::string line;
  if (Error error = read_line(line, kFirstAnswer_ms)) return error;
  if (PmiLine(line).command() != "initack") return broken(fmt::format("answers '{}' where initack was due", line));
  // Three lines follow: size, rank, debug, in any order.
  for (int i = 0; i < 3; ++i) {
    if (Error error = read_line(line, kFirstAnswer_ms)) return error;
    PmiLine parsed(line);
    if (parsed.has("size")) size_ = int(parsed.number("size", 0));
    if (parsed.has("rank")) rank_ = int(parsed.number("rank", -1));
  }
  return {};
}

Error Pmi1::open(bool by_port) {
  if (by_port) {
    if (Error error = learn_identity_by_port()) return error;
  } else {
    rank_ = int(environment_number("PMI_RANK", -1));
    size_ = int(environment_number("PMI_SIZE", 0));
  }
  if (size_ < 1 || rank_ < 0 || rank_ >= size_) {
    return broken(fmt::format("says rank {} of {} (PMI_RANK, PMI_SIZE), which cannot be", rank_, size_));
  }
  std::string answer;
  if (Error error = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", answer, kFirstAnswer_ms))
    return error;
  PmiLine opening(answer);
  if (opening.number("rc", -1) != 0) return broken(fmt::format("refuses PMI version 1.1: '{}'", answer));
  return learn_rest(opening);
}

Error Pmi1::learn_rest(const PmiLine& opening) {
  std::string mapping;
  if (opening.has("kvsname")) {
    space_ = opening["kvsname"];
    app_number_ = int(opening.number("appnum", -1));
    universe_size_ = int(opening.number("universe_size", -1));
    value_max_ = opening.number("vallen_max", value_max_);
    mapping = opening["mapping"];
  } else {
    std::string answer;
    if (Error error = ask("cmd=get_maxes", "maxes", answer)) return error;
    value_max_ = PmiLine(answer).number("vallen_max", value_max_);
    if (Error error = ask("cmd=get_appnum", "appnum", answer)) return error;
    app_number_ = int(PmiLine(answer).number("appnum", -1));
    if (Error error = ask("cmd=get_universe_size", "universe_size", answer)) return error;
    universe_size_ = int(PmiLine(answer).number("size", -1));
    if (Error error = ask("cmd=get_my_kvsname", "my_kvsname", answer)) return error;
    space_ = PmiLine(answer)["kvsname"];
    // A server without the key answers so; then learn_neighbours finds another way.
    if (Error error = get_one("PMI_process_mapping", mapping)) mapping.clear();
  }
  if (value_max_ < 64) return broken(fmt::format("takes values of at most {} bytes, which is too few", value_max_));
  if (space_.empty()) return broken("names no key-value space");
  job_id_ = clean_name(space_);
  if (Error error = learn_parent()) return error;
  return learn_neighbours(mapping);
}

// Without a mapping (no rank gets one): by the kernel's boot id and the host's name.
Error Pmi1::learn_neighbours(std::string_view mapping) {
  local_ranks_ = parse_process_mapping(mapping, rank_, size_);
  nodes_ = nodes_of_mapping(mapping, size_);
  if (!local_ranks_.empty()) return {};
  if (size_ == 1) {
    local_ranks_ = {0};
    nodes_ = 1;
    return {};
  }
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string mine, other;
  std::set<std::string> names;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> mine;
  mine += std::string("@") + host;
  if (Error error = put("node", mine)) return error;
  if (Error error = fence()) return error;
  for (int rank = 0; rank < size_; ++rank) {
    if (Error error = get(rank, "node", other)) return error;
    if (other == mine) local_ranks_.push_back(rank);
    names.insert(other);
  }
  nodes_ = int(names.size());
  return {};
}

Error Pmi1::put_one(std::string_view key, std::string_view value) {
  std::string answer;
  if (Error error = ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result", answer)) {
    return error;
  }
  PmiLine parsed(answer);
  if (parsed.number("rc", 0) != 0) return broken(fmt::format("does not store key '{}': {}", key, parsed["msg"]));
  return {};
}

Error Pmi1::get_one(std::string_view key, std::string& value) {
  std::string answer;
  if (Error error = ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", answer)) return error;
  PmiLine parsed(answer);
  if (parsed.number("rc", 0) != 0) return broken(fmt::format("has no key '{}': {}", key, parsed["msg"]));
  value = parsed["value"];
  return {};
}

Error Pmi1::put(std::string_view key, std::string_view value) {
  TERN_ASSERT(key.size() <= kMaxKeyLength);
  const std::string text = encode(value);
  // Room for "<length>." and the terminating null in the value; for the rest of the command in the line.
  const size_t line_rest =
      std::string_view("cmd=put kvsname= key= value=\n").size() + space_.size() + full_key(rank_, key, 999).size();
  const size_t chunk_size = std::min(size_t(value_max_), kLineMax - std::min(line_rest, kLineMax / 2)) - 24;
  size_t at = 0;
  for (size_t chunk = 0; chunk == 0 || at < text.size(); ++chunk) {
    std::string piece = text.substr(at, chunk_size);
    at += piece.size();
    if (chunk == 0) piece = fmt::format("{}.{}", text.size(), piece);
    if (Error error = put_one(full_key(rank_, key, chunk), piece)) return error;
  }
  return {};
}

Error Pmi1::get(int rank, std::string_view key, std::string& value) {
  std::string text, piece;
  if (Error error = get_one(full_key(rank, key, 0), text)) return error;
  size_t length = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (failure != std::errc() || end == text.data() + text.size() || *end != '.') {
    return broken(fmt::format("holds a spoilt value of key '{}' of rank {}", key, rank));
  }
  text.erase(0, size_t(end - text.data()) + 1);
  for (size_t chunk = 1; text.size() < length; ++chunk) {
    if (Error error = get_one(full_key(rank, key, chunk), piece)) return error;
    if (piece.empty()) break;
    text += piece;
  }
  if (text.size() != length || !decode(text, value)) {
    return broken(fmt::format("holds a spoilt value of key '{}' of rank {}", key, rank));
  }
  return {};
}

// Our mpiexec writes the message, in place of all ranks that say the same.
bool Pmi1::pass_on(std::string_view message) {
  if (message.empty() || !is_ours() || !mpiexec_writes_errors()) return false;
  std::string lines = error_lines(message, rank_prefix(rank_));
  lines.pop_back();  // send adds the last newline
  return !send(std::move(lines));
}

void Pmi1::abort(int code, std::string_view message) {
  if (!pass_on(message)) say_last_words(message);
  flush_standard_streams();
  // Other launchers (Hydra) kill at once and drop what is in the pipe of this process's stderr; ours reads it first.
  // Time for the launcher to read the message: a busy one is scheduled within some time slices.
  constexpr useconds_t kReadingTime_us = 100'000;
  const bool ours = getenv("TERN_JOB_ID") != nullptr;
  if (!ours && !message.empty()) usleep(kReadingTime_us);
  // A launcher that has ended cannot be told; this process ends nevertheless.
  const Error error = send(fmt::format("cmd=abort exitcode={}", ours ? code : exit_status(code)));
  if (error || ours) _exit(exit_status(code));
  await_kill(code);
  _exit(exit_status(code));
}

Error Pmi1::finalize() {
  std::string answer;
  if (Error error = ask("cmd=finalize", "finalize_ack", answer)) return error;
  // The connection stays open: its end tells the server that the process has ended, and abort() may still
  // come.
  return {};
}

// A connected socket; -1 with errno set. Null: this machine, by its loopback.
int connect_to(const char* host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, port.c_str(), &hints, &found) != 0) {
    errno = EHOSTUNREACH;
    return -1;
  }
  int descriptor = -1;
  for (addrinfo* a = found; a && descriptor < 0; a = a->ai_next) {
    int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s < 0) continue;
    if (connect(s, a->ai_addr, a->ai_addrlen) == 0) {
      descriptor = s;
    } else {
      close(s);
    }
  }
  freeaddrinfo(found);
  return descriptor;
}

// "host:port" to a connected socket; -1 with errno set. This machine's own name is not looked up, since some machines
// cannot resolve it.
int connect_to(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    errno = EINVAL;
    return -1;
  }
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  utsname own{};
  const bool here = uname(&own) == 0 && host == own.nodename;
  const int descriptor = here ? connect_to(nullptr, port) : -1;
  return descriptor >= 0 ? descriptor : connect_to(host.c_str(), port);
}

}  // namespace

std::unique_ptr<Launcher> connect_pmi1(Error& error) {
  const bool by_port = !getenv("PMI_FD");
  int descriptor = -1;
  std::string origin;
  if (by_port) {
    const char* address = getenv("PMI_PORT");
    origin = fmt::format("PMI-1 at {}", address ? address : "?");
    descriptor = connect_to(address ? address : "");
    if (descriptor < 0) {
      error = Error(ErrorClass::other,
                    fmt::format("the launcher ({}, from PMI_PORT) cannot be reached: {}", origin, strerror(errno)));
      return nullptr;
    }
  } else {
    descriptor = int(environment_number("PMI_FD", -1));
    origin = fmt::format("PMI-1 on descriptor {}", descriptor);
    if (!is_socket(descriptor)) {
      error =
          Error(ErrorClass::other,
                fmt::format("PMI_FD={} says that a launcher (Hydra, Slurm or mpiexec) started this program, but that "
                            "descriptor is not a socket here. Something between the launcher and the program closed "
                            "it, or this program was started by a rank: clear PMI_FD, PMI_RANK and PMI_SIZE for it",
                            getenv("PMI_FD")));
      return nullptr;
    }
    // Programs that this rank starts must not use its connection.
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  auto launcher = std::make_unique<Pmi1>(descriptor, std::move(origin));
  error = launcher->open(by_port);
  if (error) return nullptr;
  return launcher;
}

}  // namespace tern
