#include "agent_command.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "engines.h"

namespace tern::mpiexec {
namespace {

constexpr const char kOwnVariable[] = "TERN_AGENT", kExecutableVariable[] = "TERN_AGENT_MPIEXEC",
                     kWidthVariable[] = "TERN_AGENT_WIDTH";
constexpr std::string_view kHostPlace = "%h";
// ssh gives up a connection after so long. With it an unreachable host is named within ten seconds.
constexpr const char kSshOptions[] = "-x -T -o BatchMode=yes -o ConnectTimeout=8";

std::vector<std::string> split(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_set(const char* value) { return value && *value; }

// What a program has said: its last line that says something.
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    const bool says = line.find_first_not_of(" \t@") != std::string::npos;
    // ssh's note on the first connection.
    if (says && !line.starts_with("Warning: Permanently added")) last = line;
  }
  std::replace_if(
      last.begin(), last.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, ' ');
  constexpr size_t kMaxText = 300;  // a few lines of a terminal
  return last.size() > kMaxText ? last.substr(0, kMaxText) + "..." : last;
}

std::string how_ended(const AgentEnd& end) {
  if (!end.status) return "has closed its connection";
  if (WIFSIGNALED(*end.status)) return fmt::format("was killed by signal {}", WTERMSIG(*end.status));
  return fmt::format("has ended with exit code {}", WEXITSTATUS(*end.status));
}

struct Known {
  const char* words;    ///< of ssh, or of a shell
  const char* meaning;  ///< {0} the host, {1} the agent's program, {2} mpiexec there
};
// In this order: an earlier one says more.
constexpr Known kKnown[] = {
    {"Could not resolve hostname", "the host is not known here. Correct its name in -host or in the host file"},
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "its host key is another than the one that ssh knows. If that is right, forget the old one: ssh-keygen -R {0}"},
    {"Host key verification failed",
     "ssh does not know its host key. Connect once by hand (ssh {0}), or add it to ~/.ssh/known_hosts (ssh-keyscan "
     "{0})"},
    {"Connection refused",
     "nothing accepts ssh's connection there. Start sshd, or name its port in ~/.ssh/config or with TERN_AGENT=\"ssh "
     "-p "
     "PORT\""},
    {"Connection timed out", "it does not answer. Check that it is on, and that no firewall blocks ssh's port"},
    {"No route to host", "there is no way to it. Check that it is on, and the network"},
    {"Network is unreachable", "there is no way to its network"},
    {"Too many authentication failures", "it refuses the keys. ssh {0} true must work without a password"},
    {"Permission denied (", "it refuses the key. ssh {0} true must work without a password: ssh-copy-id {0}"},
    {"gives no standard input",
     "{1} passes no standard input on. kubectl exec, docker exec and podman exec need the option -i"},
    {"nknown option", "{2} there is another release of Tern's mpiexec, or of another MPI. Install this release there"},
    {"nrecognized option", "{2} there is another MPI's. Name Tern's with TERN_AGENT_MPIEXEC"},
    {"nrecognized argument", "{2} there is another MPI's. Name Tern's with TERN_AGENT_MPIEXEC"},
    {"error while loading shared libraries", "mpiexec cannot run there: a library is missing"},
};

std::string meaning_of(const AgentEnd& end, const AgentCommand& command) {
  for (const Known& known : kKnown) {
    if (end.said.find(known.words) != std::string::npos)
      return fmt::format(fmt::runtime(known.meaning), end.host, command.words[0], command.executable);
  }
  const int code = end.status && WIFEXITED(*end.status) ? WEXITSTATUS(*end.status) : -1;
  constexpr int kNotFound = 127, kNotExecutable = 126;  // of shells, and of kubectl exec and docker exec
  if (code == kNotFound || code == kNotExecutable)
    return fmt::format("there is no {} there that can be run. Install Tern at the same place, or name another with {}",
                       command.executable, kExecutableVariable);
  return {};
}

}  // namespace

const char* agent_variable(const Variables& variable) {
  for (const char* name : {kOwnVariable, "HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "OMPI_MCA_plm_rsh_agent",
                           "PRTE_MCA_plm_ssh_agent"}) {
    if (is_set(variable(name))) return name;
  }
  return nullptr;
}

AgentCommand agent_command(const Variables& variable, const std::string& own, std::string& mistake) {
  AgentCommand command{{"ssh"}, true, own};
  const char* name = agent_variable(variable);
  if (name) {
    const std::string_view text = variable(name);
    // Open MPI's names several, of which the first that exists is taken: "ssh : rsh".
    const bool open_mpi = strstr(name, "_MCA_") != nullptr;
    command.words = split(open_mpi ? text.substr(0, text.find(" :")) : text);
    // Programs that enter a container take words; what stands for ssh hands a line to a shell.
    const std::string program = command.words.empty() ? "" : base_name(command.words[0]);
    command.by_shell = program != "kubectl" && program != "docker" && program != "podman" && program != "nsenter";
  }
  const bool own_choice = name && strcmp(name, kOwnVariable) == 0;
  for (const char* options :
       {"OMPI_MCA_plm_rsh_args", "HYDRA_LAUNCH_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"}) {
    const char* more = own_choice ? nullptr : variable(options);
    for (std::string& word : split(more ? more : "")) command.words.push_back(std::move(word));
  }
  if (command.words.empty()) mistake = fmt::format("{} names no program", name);
  else if (base_name(command.words[0]) == "ssh")
    for (std::string& word : split(kSshOptions)) command.words.push_back(std::move(word));
  if (const char* there = variable(kExecutableVariable); is_set(there)) command.executable = there;
  if (const char* text = variable(kWidthVariable); is_set(text)) {
    const char* const end = text + strlen(text);
    const auto [stop, failure] = std::from_chars(text, end, command.width);
    if (failure != std::errc() || stop != end || command.width < 1)
      mistake = fmt::format("{} is '{}', but takes a number of hosts from 1 on", kWidthVariable, text);
  }
  return command;
}

int connection_attempts(const AgentCommand& command) {
  constexpr std::string_view kOption = "ConnectionAttempts=";
  constexpr int kMost = 100;  // with a second between them longer than anybody waits
  for (const std::string& word : command.words) {
    const size_t at = word.find(kOption);
    if (at != std::string::npos) return std::clamp(atoi(word.c_str() + at + kOption.size()), 1, kMost);
  }
  return 1;
}

std::vector<std::string> command_for(const AgentCommand& command, const std::string& host) {
  std::vector<std::string> words = command.words;
  bool placed = false;
  for (std::string& word : words) {
    for (size_t at = 0; (at = word.find(kHostPlace, at)) != std::string::npos; at += host.size()) {
      word.replace(at, kHostPlace.size(), host);
      placed = true;
    }
  }
  if (!placed) words.push_back(host);
  words.push_back(command.by_shell ? shell_word(command.executable) : command.executable);
  words.push_back(kAgentOption);
  return words;
}

std::string why_lost(const AgentEnd& end, const AgentCommand& command, const std::string& version) {
  const std::string& program = command.words[0];
  const std::string last = last_line(end.said), quote = last.empty() ? "" : fmt::format(" ({})", last);
  if (end.error != 0)
    return fmt::format(
        "host '{}': {} cannot be started: {}. Install it (Debian: openssh-client), or name another "
        "program with TERN_AGENT",
        end.host, program, strerror(end.error));
  if (end.other)
    return fmt::format(
        "host '{}': mpiexec there is of Tern {}, this one of {}. Install the same release there, or name "
        "it with {}",
        end.host, *end.other, version, kExecutableVariable);
  if (end.greeted && end.silent)
    return fmt::format("host '{}' is lost: its agent does not answer any more. The host, or the network to it, is down",
                       end.host);
  if (end.greeted)
    return fmt::format(
        "host '{}' is lost: {} to its agent {}{}. The agent or the connection was ended, or the host is "
        "down",
        end.host, program, how_ended(end), quote);
  if (const std::string meaning = meaning_of(end, command); !meaning.empty())
    return fmt::format("host '{}': {}{}", end.host, meaning, quote);
  if (end.silent)
    return fmt::format("host '{}': {} has not started mpiexec there within the time{}. Try by hand: {}", end.host,
                       program, quote, fmt::join(command_for(command, end.host), " "));
  return fmt::format("host '{}': mpiexec was not started there, {} {}{}. Try by hand: {}", end.host, program,
                     how_ended(end), quote, fmt::join(command_for(command, end.host), " "));
}

}  // namespace tern::mpiexec
