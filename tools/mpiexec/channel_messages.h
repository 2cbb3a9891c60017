// The messages between mpiexec and its agents on other hosts (agents.h, agent.h): over the standard input and output of
// ssh, or of what stands in its place. Each direction begins with kChannelMagic; what a shell or a profile has printed
// before it is passed over. Frames follow, numbers with their lowest byte first:
//
//   bytes of the body (4)   kind (2)   0 (2)   host (4)   rank (4)   body
//
// A host is a number that the first mpiexec has given; each agent passes on what is for hosts below it. Bodies are
// numbers of 8 bytes and texts with their length before them (Packer, Unpacker). All processes are of one release,
// which the first frame of each direction says (Opening, Greeting); that frame stays as it is in later releases. Thread
// rule: values. What comes is checked: the other side may be another program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host_cores.h"

namespace tern::mpiexec {

inline constexpr std::string_view kChannelMagic = "\nTERN-AGENT\n";
inline constexpr uint32_t kEveryHost = ~uint32_t{0};  // the number of no host

enum class FrameKind : uint16_t {
  // Down, to agents
  open = 1,    ///< Opening: who you are, and which hosts are below you; answered by `greeting`
  job,         ///< JobText; answered by `ready` or `refused`
  start,       ///< numbers: MPI_UNIVERSE_SIZE, processors for the ranks of this host. Start them
  value,       ///< "key value": of the key-value space, for `release`
  release,     ///< every rank has entered the barrier; the values have come before
  pmi_answer,  ///< to the rank: a line of PMI-1
  signal,      ///< a number: to the rank; rank -1: to everything on the host
  ask,         ///< ask the ranks what they do; answered by `looks` after their own lines
  look,        ///< only `looks`
  input,       ///< standard input for the rank; empty: its end
  credit,      ///< a number: bytes of output that have been taken
  sync,        ///< answered by `synced`, after the ends of all processes that have ended by now
  end_all,     ///< kill what is left; answered by `record`s and `all_ended`
  ping,        ///< from hop to hop; answered by `pong`
  // Up
  greeting = 64,  ///< Greeting
  ready,          ///< HostCores
  refused,        ///< an exit code, a text
  started,        ///< the rank: process number, a text for -v
  ended,          ///< the rank: Ended
  pmi,            ///< a line of the rank
  out,            ///< the rank's standard output
  err,            ///< and standard error
  say,            ///< a message for the user
  looks,          ///< numbers for each rank on the host: Look
  taken,          ///< a number: bytes of the rank's input that it has taken
  synced,
  record,     ///< the name of a file, a number (where in it), a piece of it
  all_ended,  ///< process numbers that the kernel does not end
  pong,
  lost,  ///< this host, and those below it, are out of reach: a text. Made by whoever notices
};

struct Frame {
  FrameKind kind{};
  uint32_t host = 0;
  int32_t rank = -1;
  std::string body{};
};

inline constexpr size_t kFrameHeadBytes = 16;  // see the drawing above
/// Larger bodies are an error of the other side. The largest that we send: the environment of a job's programs.
inline constexpr size_t kMaxBodyBytes = size_t{1} << 26;
/// Before the magic: what a login script prints is shorter.
inline constexpr size_t kMaxNoise = 1 << 16;

std::string to_bytes(const Frame& frame);

/// Bytes in, frames out.
class FrameReader {
 public:
  void append(const char* data, size_t bytes) { bytes_.append(data, bytes); }
  enum class Next { none, frame, broken };
  /// broken: what comes is not this protocol, and never will be.
  Next next(Frame& frame);
  bool begun() const { return begun_; }
  /// What came before the magic.
  const std::string& noise() const { return noise_; }

 private:
  bool find_magic();

  std::string bytes_, noise_;
  size_t start_ = 0;
  bool begun_ = false, broken_ = false;
};

/// Builds a body.
class Packer {
 public:
  Packer& number(uint64_t value);
  Packer& text(std::string_view value);
  Packer& texts(const std::vector<std::string>& values);
  Packer& numbers(const std::vector<uint32_t>& values);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

/// Reads a body. Behind its end, numbers are 0 and texts empty, and good() is false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view body) : rest_(body) {}
  uint64_t number();
  std::string text();
  std::vector<std::string> texts();
  std::vector<uint32_t> numbers();
  /// The number of parts that follow, each of at least `least` bytes. 0: there cannot be so many.
  size_t count(size_t least);
  /// All that was read was there.
  bool good() const { return good_; }
  /// And nothing else.
  bool done() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

/// A host below: its number, and its name as the user has written it.
struct HostName {
  uint32_t id = 0;
  std::string name{};

  bool operator==(const HostName&) const = default;
};

/// How agents are started (agent_command.h).
struct AgentCommand {
  std::vector<std::string> words{};  ///< ssh and its options, without host and program
  bool by_shell = true;              ///< a shell reads the program's words there: they are quoted
  std::string executable{};          ///< mpiexec there
  uint32_t width = 32;               ///< so many hosts are started by one process; further ones by those

  bool operator==(const AgentCommand&) const = default;
};

struct Opening {
  std::string version{};  ///< of Tern; first, in every release
  HostName self{};
  std::vector<HostName> below{};
  AgentCommand command{};
};
struct Greeting {
  std::string version{};     ///< of Tern; first, in every release
  std::string executable{};  ///< where it lies there
};

/// One program of the job, as its ranks are started.
struct ProgramText {
  std::vector<std::string> command{}, environment{};
  std::vector<std::string> own_names{};  ///< variables of one host that the ranks get from theirs; "*": all such
  std::string directory{};               ///< absolute
  bool directory_given = false;          ///< by -wdir
  std::string search_path{};
};
struct JobText {
  std::string id{}, key{}, mapping{};
  std::string directory{};  ///< mpiexec's own
  std::vector<ProgramText> programs{};
  std::vector<uint32_t> program_of{}, host_of{};  ///< of each rank
  std::string map_text{}, bind_text{};
  bool report_bindings = false, verbose = false;
  uint64_t threads = 1;         ///< of each rank, as choose_binding wants it
  bool records = false;         ///< each rank leaves one
  uint64_t record_events = 0;   ///< TERN_RECORD_EVENTS
  uint64_t input_rank = 0;      ///< gets the standard input
  bool errors_in_file = false;  ///< standard error goes to files alone, or too
};
struct Ended {
  int status = 0;            ///< of waitpid
  int error = 0;             ///< not 0: it never became the program
  uint64_t lack_memory = 0;  ///< processes that the kernel has killed for lack of memory since the job began there
};
/// What a hang page needs to know of a rank beside what it says itself.
struct Look {
  uint32_t rank = 0;
  uint64_t alone_ms = 0;  ///< has not communicated for so long; 0: not known
  bool stopped = false;
};
struct RecordPiece {
  std::string name{};
  uint64_t at = 0;
  std::string bytes{};
};

std::string packed(const Opening& opening);
std::string packed(const Greeting& greeting);
std::string packed(const JobText& job);
std::string packed(const HostCores& cores);
std::string packed(const Ended& ended);
std::string packed(const std::vector<Look>& looks);
std::string packed(const RecordPiece& piece);

// False: it is no such body. Of Opening and Greeting, `version` is set where there is any text.
bool unpack(std::string_view body, Opening& opening);
bool unpack(std::string_view body, Greeting& greeting);
bool unpack(std::string_view body, JobText& job);
bool unpack(std::string_view body, HostCores& cores);
bool unpack(std::string_view body, Ended& ended);
bool unpack(std::string_view body, std::vector<Look>& looks);
/// The name has no slash, and is not "." or "..".
bool unpack(std::string_view body, RecordPiece& piece);

}  // namespace tern::mpiexec
