#include "simulated.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "helper_program.h"
#include "keeper.h"
#include "recording.h"
#include "streams.h"

namespace tern::mpiexec {
namespace {

/// Options that have no meaning for ranks that are no processes.
std::string refused(const Plan& plan) {
  if (plan.gdb) return "-gdb: all ranks are one process, `gdb --args mpiexec ...` debugs it";
  if (!plan.host_file.empty()) return "a host file: a simulated machine has nodes of its own (-ppn)";
  for (const App& app : plan.apps) {
    if (!app.hosts.empty()) return "-host: a simulated machine has nodes of its own (-ppn)";
    if (!app.environment.empty() || app.own_inheritance)
      return "-env, -envlist and so on: all ranks have one environment. Use -genv or -x";
    if (!app.directory.empty() && app.directory != plan.apps[0].directory)
      return "-wdir that differs: all ranks have one working directory";
  }
  return {};
}

std::vector<std::string> words_of(const Plan& plan) {
  std::vector<std::string> words{helper_program("simulate"), "--machine", plan.simulated_machine};
  auto add = [&](const char* name, const std::string& value) { words.insert(words.end(), {name, value}); };
  if (plan.ranks_per_host != 0) add("--ppn", std::to_string(plan.ranks_per_host));
  if (plan.timeout_s != 0) add("--timeout", std::to_string(plan.timeout_s));
  if (plan.label) words.emplace_back("--label");
  if (!plan.files.out_pattern.empty()) add("--out-pattern", plan.files.out_pattern);
  if (!plan.files.err_pattern.empty()) add("--err-pattern", plan.files.err_pattern);
  if (!plan.files.folder.empty()) add("--output-folder", plan.files.folder);
  if (!plan.files.copy) words.emplace_back("--output-only");
  words.insert(words.end(), plan.simulate_options.begin(), plan.simulate_options.end());
  for (const App& app : plan.apps) {
    if (&app != plan.apps.data()) words.emplace_back(":");
    add("-n", std::to_string(std::max(app.ranks, 1)));
    words.push_back(found_program(app));
    words.insert(words.end(), app.command.begin() + 1, app.command.end());
  }
  return words;
}

/// Mpiexec's variables as the plan wants them, from now on our own.
void set_environment(const Plan& plan) {
  if (!plan.inheritance.all) {
    std::vector<std::string> kept;
    for (const std::string& name : plan.inheritance.names) {
      if (const char* value = getenv(name.c_str())) kept.push_back(name + "=" + value);
    }
    clearenv();
    for (std::string& each : kept) putenv(strdup(each.c_str()));
  }
  for (const std::string& each : plan.environment) putenv(strdup(each.c_str()));
}

[[noreturn]] void become(const Plan& plan) {
  set_environment(plan);
  if (!plan.apps[0].directory.empty() && chdir(plan.apps[0].directory.c_str()) != 0) {
    say(fmt::format("working directory '{}': {}", plan.apps[0].directory, strerror(errno)));
    _exit(1);
  }
  std::vector<std::string> words = words_of(plan);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  say(fmt::format("the simulator {}: {}", words[0], strerror(errno)));
  _exit(127);
}

}  // namespace

int run_simulated(Plan& plan, char** argv) {
  if (const std::string what = refused(plan); !what.empty()) {
    say("--simulate cannot be used with " + what);
    return 2;
  }
  if (!plan.records()) become(plan);
  Keeper keeper;
  Recording recording;
  if (!keeper.start(argv) || !recording.begin(plan, false, keeper)) return 1;
  for (App& app : plan.apps) app.ranks = std::max(app.ranks, 1);
  // The terminal's signals reach the simulator by themselves; then the folder of the records is to be removed.
  signal(SIGINT, SIG_IGN);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    become(plan);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool ended = child > 0 && WIFEXITED(status);
  const int code = ended ? WEXITSTATUS(status) : child > 0 ? 128 + WTERMSIG(status) : 1;
  return recording.end(plan) || code != 0 ? code : 1;
}

}  // namespace tern::mpiexec
