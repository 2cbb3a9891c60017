#include "engines.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "base/system_names.h"
#include "placing.h"

namespace tern::mpiexec {
namespace {

using Words = std::vector<std::string>;

void push(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::string name_of(const std::string& entry) { return entry.substr(0, entry.find('=')); }

// "a:2,b:1".
std::string with_counts(const Shares& shares) {
  Words parts;
  for (const Host& host : shares) parts.push_back(fmt::format("{}:{}", host.name, host.slots));
  return fmt::format("{}", fmt::join(parts, ","));
}

bool inherits_all(const Plan& plan, const App& app) { return plan.inheritance_of(app).all; }

// The program behind env(1), which leaves out what is not inherited and sets what is for this program only. Without
// changes, too: a program that is missing there then has exit code 127 in each launcher, and 126 if it cannot be run.
Words with_environment(const Plan& plan, const App& app, const Words& inherited, const Words& set_before) {
  Words changes;
  const Inheritance& inheritance = plan.inheritance_of(app);
  for (const std::string& name : inherited) {
    const bool kept = inheritance.all ||
                      std::find(inheritance.names.begin(), inheritance.names.end(), name) != inheritance.names.end();
    const bool set = std::any_of(set_before.begin(), set_before.end(),
                                 [&](const std::string& entry) { return name_of(entry) == name; });
    if (!kept && !set) push(changes, {"-u", name});
  }
  changes.insert(changes.end(), app.environment.begin(), app.environment.end());
  Words words = app.command;
  if (changes.empty() && words[0].find('=') != std::string::npos) return words;  // env would take it for a variable
  words.insert(words.begin(), changes.begin(), changes.end());
  words.insert(words.begin(), "/usr/bin/env");
  return words;
}

// Variables that a launcher sets for its own processes, or that belong to one host: they are not sent to others.
bool belongs_to_this_host(const std::string& name) {
  for (const char* prefix : {"OMPI_", "PMIX_", "PRTE_", "PMI_", "BASH_FUNC_"}) {
    if (name.starts_with(prefix)) return true;
  }
  for (const char* own : {"_", "PWD", "OLDPWD", "HOSTNAME", "SHLVL", "TMPDIR"}) {
    if (name == own) return true;
  }
  return false;
}

// "%r" and "%h" of -outfile-pattern as srun writes them.
std::string slurm_pattern(const std::string& pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'r' || next == 'h' || next == '%') {
      text += next == 'r' ? "%t" : next == 'h' ? "%N" : "%%";
      ++i;
    } else {
      text += pattern[i];
    }
  }
  return text;
}

// Options that only some engines offer.
struct Offers {
  bool patterns = false, folder = false, exit_codes = false, universe = false, map = false, report = false;
};

void note_ignored(const Plan& plan, const Offers& offers, Words& ignored) {
  const auto note = [&ignored](bool given, bool offered, const char* option) {
    if (given && !offered) ignored.push_back(option);
  };
  note(!plan.files.out_pattern.empty(), offers.patterns, "-outfile-pattern");
  note(!plan.files.err_pattern.empty(), offers.patterns, "-errfile-pattern");
  note(!plan.files.folder.empty(), offers.folder, "-output-filename");
  note(plan.print_exit_codes, offers.exit_codes, "-print-all-exitcodes");
  note(plan.universe_size != 0, offers.universe, "-usize");
  note(!plan.placement.map_text.empty(), offers.map, "-map-by");
  note(plan.placement.report, offers.report, "-report-bindings");
}

// --- Slurm

void slurm_binding(const std::string& part, EngineCommand& command) {
  if (part.empty()) return;
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"none", "none"}, {"core", "cores"}, {"hwthread", "threads"}, {"socket", "sockets"}, {"numa", "ldoms"}};
  for (const auto& [ours, theirs] : kNames) {
    if (part == ours) return push(command.words, {fmt::format("--cpu-bind={}", theirs)});
  }
  command.ignored.push_back("-bind-to " + part);
}

// One command line of a shell that becomes the program of this rank: srun and flux know one program only. `variable`:
// where a rank finds its number.
std::string choice_by_rank(const Plan& plan, const Words& inherited, const char* variable) {
  std::string script;
  int end = 0;
  for (const App& app : plan.apps) {
    end += app.ranks;
    Words words;
    for (const std::string& word : with_environment(plan, app, inherited, plan.environment))
      words.push_back(shell_word(word));
    if (&app == &plan.apps.back()) script += "else ";
    else script += fmt::format("{} [ \"${}\" -lt {} ]; then ", script.empty() ? "if" : "elif", variable, end);
    if (!app.directory.empty()) script += fmt::format("cd {} && ", shell_word(app.directory));
    script += fmt::format("exec {}; ", fmt::join(words, " "));
  }
  return script + "fi";
}

void to_slurm(const Plan& plan, const std::string& own_name, const Words& inherited, EngineCommand& command) {
  Words& words = command.words;
  push(words, {"--mpi=pmi2", "--kill-on-bad-exit=1"});  // as the other launchers do: else the rest waits for ever
  if (plan.label) push(words, {"--label"});
  if (!plan.files.out_pattern.empty()) push(words, {"--output=" + slurm_pattern(plan.files.out_pattern)});
  if (!plan.files.err_pattern.empty()) push(words, {"--error=" + slurm_pattern(plan.files.err_pattern)});
  slurm_binding(plan.placement.bind_text, command);
  note_ignored(plan, {.patterns = true}, command.ignored);
  command.environment = plan.environment;  // srun passes its environment on
  push(words, {"-n", std::to_string(plan.ranks())});
  const bool named = std::any_of(plan.apps.begin(), plan.apps.end(), [](const App& app) { return !app.hosts.empty(); });
  if (named || !plan.host_file.empty()) {
    // Rank by rank, each with its host.
    Words hosts;
    for (const Shares& shares : distribute(plan, own_name)) {
      for (const Host& host : shares) hosts.insert(hosts.end(), size_t(host.slots), host.name);
    }
    push(words, {"--distribution=arbitrary", "-w", fmt::format("{}", fmt::join(hosts, ","))});
  } else if (plan.ranks_per_host > 0) {
    push(words, {"--ntasks-per-node", std::to_string(plan.ranks_per_host)});
  }
  if (plan.apps.size() > 1) return push(words, {"/bin/sh", "-c", choice_by_rank(plan, inherited, "SLURM_PROCID")});
  const App& app = plan.apps[0];
  if (!app.directory.empty()) push(words, {"--chdir", app.directory});
  const Words program = with_environment(plan, app, inherited, plan.environment);
  words.insert(words.end(), program.begin(), program.end());
}

// --- Flux

// Ranks on named hosts, or as many on each. Flux counts ranks on a node for all nodes alike.
void flux_places(const Plan& plan, const std::string& own_name, EngineCommand& command) {
  const bool named = plan.batch_system.empty();
  if (!named && plan.ranks_per_host == 0) return push(command.words, {"-n", std::to_string(plan.ranks())});
  Shares hosts;
  for (const Shares& shares : distribute(plan, own_name)) {
    for (const Host& host : shares) {
      auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& other) { return other.name == host.name; });
      if (known == hosts.end()) hosts.push_back(host);
      else known->slots += host.slots;
    }
  }
  const bool even =
      std::all_of(hosts.begin(), hosts.end(), [&](const Host& host) { return host.slots == hosts[0].slots; });
  push(command.words, {fmt::format("--nodes={}", hosts.size())});
  if (even) push(command.words, {fmt::format("--tasks-per-node={}", hosts[0].slots)});
  else push(command.words, {"-n", std::to_string(plan.ranks())});
  if (!even) command.ignored.push_back("other numbers of ranks on some hosts than on others");
  if (!named) return;
  Words names;
  for (const Host& host : hosts) names.push_back(host.name);
  push(command.words, {fmt::format("--requires=hosts:{}", fmt::join(names, ","))});
}

void to_flux(const Plan& plan, const std::string& own_name, const Words& inherited, EngineCommand& command) {
  Words& words = command.words;
  push(words, {"run", "-o", "exit-on-error"});  // as the other launchers do: else the rest goes on
  // Flux gives its standard input to every rank.
  push(words, {plan.input_rank < 0 ? "--input=/dev/null" : fmt::format("--input={}", plan.input_rank)});
  if (plan.label) push(words, {"--label-io"});
  const std::string& bind = plan.placement.bind_text;
  if (bind == "none") push(words, {"-o", "cpu-affinity=off"});
  else if (bind == "core") push(words, {"-o", "cpu-affinity=per-task"});
  else if (!bind.empty()) command.ignored.push_back("-bind-to " + bind);
  note_ignored(plan, {}, command.ignored);
  command.environment = plan.environment;  // flux run passes its environment on
  flux_places(plan, own_name, command);
  if (plan.apps.size() > 1) return push(words, {"/bin/sh", "-c", choice_by_rank(plan, inherited, "FLUX_TASK_RANK")});
  const App& app = plan.apps[0];
  if (!app.directory.empty()) push(words, {"--cwd=" + app.directory});
  const Words program = with_environment(plan, app, inherited, plan.environment);
  words.insert(words.end(), program.begin(), program.end());
}

// --- PRRTE and Open MPI

void to_open_mpi(const Plan& plan, const std::string& own_name, const Words& inherited, bool root,
                 EngineCommand& command) {
  Words& words = command.words;
  if (root) push(words, {"--allow-run-as-root"});
  push(words, {"--oversubscribe"});
  if (plan.label) push(words, {"--tag-output"});
  if (!plan.files.folder.empty())
    push(words, {"--output-filename", plan.files.folder + (plan.files.copy ? "" : ":nocopy")});
  // Without it version 5 takes --oversubscribe for leave to start all ranks on the first host.
  push(words, {"--map-by", plan.placement.map_text.empty() ? "slot" : plan.placement.map_text});
  if (!plan.placement.bind_text.empty()) push(words, {"--bind-to", plan.placement.bind_text});
  if (plan.placement.report) push(words, {"--report-bindings"});
  note_ignored(plan, {.folder = true, .map = true, .report = true}, command.ignored);
  // On other hosts the ranks would get the environment of Open MPI's daemon there.
  for (const std::string& name : inherited) {
    const bool wanted = std::any_of(plan.apps.begin(), plan.apps.end(), [&](const App& app) {
      const Words& names = plan.inheritance_of(app).names;
      return inherits_all(plan, app) || std::find(names.begin(), names.end(), name) != names.end();
    });
    const bool set = std::any_of(plan.environment.begin(), plan.environment.end(),
                                 [&](const std::string& entry) { return name_of(entry) == name; });
    if (wanted && !set && !belongs_to_this_host(name)) push(words, {"-x", name});
  }
  for (const std::string& entry : plan.environment) push(words, {"-x", entry});
  const std::vector<Shares> hosts = distribute(plan, own_name);
  for (size_t i = 0; i < plan.apps.size(); ++i) {
    const App& app = plan.apps[i];
    if (i > 0) words.push_back(":");
    push(words, {"-n", std::to_string(app.ranks), "--host", with_counts(hosts[i])});
    if (!app.directory.empty()) push(words, {"--wdir", app.directory});
    const Words program = with_environment(plan, app, inherited, plan.environment);
    words.insert(words.end(), program.begin(), program.end());
  }
}

// --- Hydra

void to_hydra(const Plan& plan, const std::string& own_name, const Words& inherited, EngineCommand& command) {
  Words& words = command.words;
  if (plan.label) push(words, {"-l"});
  if (plan.print_exit_codes) push(words, {"-print-all-exitcodes"});
  if (!plan.files.out_pattern.empty()) push(words, {"-outfile-pattern", plan.files.out_pattern});
  if (!plan.files.err_pattern.empty()) push(words, {"-errfile-pattern", plan.files.err_pattern});
  if (plan.universe_size != 0)
    push(words, {"-usize", plan.universe_size < 0 ? "INFINITE" : std::to_string(plan.universe_size)});
  if (!plan.placement.map_text.empty()) push(words, {"-map-by", plan.placement.map_text});
  if (!plan.placement.bind_text.empty()) push(words, {"-bind-to", plan.placement.bind_text});
  note_ignored(plan, {.patterns = true, .exit_codes = true, .universe = true, .map = true}, command.ignored);
  // Hosts are one list for all programs; consecutive ranks fill it.
  Shares hosts;
  for (const Shares& shares : distribute(plan, own_name)) {
    for (const Host& host : shares) {
      if (!hosts.empty() && hosts.back().name == host.name) hosts.back().slots += host.slots;
      else hosts.push_back(host);
    }
  }
  push(words, {"-hosts", with_counts(hosts)});
  for (const std::string& entry : plan.environment)
    push(words, {"-genv", name_of(entry), entry.substr(name_of(entry).size() + 1)});
  for (size_t i = 0; i < plan.apps.size(); ++i) {
    const App& app = plan.apps[i];
    if (i > 0) words.push_back(":");
    push(words, {"-n", std::to_string(app.ranks)});
    if (!app.directory.empty()) push(words, {"-wdir", app.directory});
    const Inheritance& inheritance = plan.inheritance_of(app);
    if (!inheritance.all && inheritance.names.empty()) push(words, {"-envnone"});
    else if (!inheritance.all) push(words, {"-envlist", fmt::format("{}", fmt::join(inheritance.names, ","))});
    // On the host of Hydra itself its daemon has mpiexec's environment, and passes that on.
    const Words program = with_environment(plan, app, inherited, plan.environment);
    words.insert(words.end(), program.begin(), program.end());
  }
}

}  // namespace

// The one that owns the allocation first, then by how well PMIx or PMI is served.
std::vector<Engine> engines() {
  std::vector<Engine> list;
  if (getenv("FLUX_URI")) list.push_back({"flux", Dialect::flux});
  if (getenv("SLURM_JOB_ID")) list.push_back({"srun", Dialect::slurm});
  list.push_back({"prterun", Dialect::open_mpi});
  list.push_back({"mpirun.openmpi", Dialect::open_mpi});
  list.push_back({"mpiexec.hydra", Dialect::hydra});
  list.push_back({"mpiexec.mpich", Dialect::hydra});
  return list;
}

EngineCommand translate(const Plan& plan, const Engine& engine, const std::string& own_name,
                        const std::vector<std::string>& inherited, bool root) {
  EngineCommand command{{engine.program}};
  switch (engine.dialect) {
    case Dialect::slurm: to_slurm(plan, own_name, inherited, command); break;
    case Dialect::flux: to_flux(plan, own_name, inherited, command); break;
    case Dialect::open_mpi: to_open_mpi(plan, own_name, inherited, root, command); break;
    case Dialect::hydra: to_hydra(plan, own_name, inherited, command); break;
  }
  return command;
}

std::string with_our_label(Dialect dialect, std::string_view line) {
  const auto digits_from = [&line](size_t at) {
    return std::min(line.find_first_not_of("0123456789", at), line.size());
  };
  const auto label = [&line](size_t begin, size_t end) {
    // srun fills ranks up with zeros: "03".
    while (begin + 1 < end && line[begin] == '0') ++begin;
    return fmt::format("[{}] ", line.substr(begin, end - begin));
  };
  if (dialect == Dialect::slurm || dialect == Dialect::flux) {  // "3: text"
    const size_t end = digits_from(0);
    if (end == 0 || line.substr(end, 2) != ": ") return std::string(line);
    return label(0, end).append(line.substr(end + 2));
  }
  if (dialect == Dialect::open_mpi && line.starts_with('[')) {  // "[1,3]<stdout>:text"
    const size_t comma = digits_from(1);
    if (comma == 1 || line.substr(comma, 1) != ",") return std::string(line);
    const size_t end = digits_from(comma + 1);
    for (std::string_view behind : {"]<stdout>:", "]<stderr>:"}) {
      if (end > comma + 1 && line.substr(end, behind.size()) == behind)
        return label(comma + 1, end).append(line.substr(end + behind.size()));
    }
  }
  return std::string(line);
}

int failure_told_by_slurm(std::string_view line) {
  // "srun: error: node1: task 3: Exited with exit code 7", "srun: error: node1: tasks 0-1: Segmentation fault (core
  // dumped)"
  constexpr std::string_view kBegin = "srun: error: ", kExited = "Exited with exit code ";
  const size_t task = line.find(": task");
  if (!line.starts_with(kBegin) || task == line.npos) return 0;
  const size_t colon = line.find(": ", task + 2);
  if (colon == line.npos) return 0;
  const std::string_view text = line.substr(colon + 2);
  if (text.starts_with(kExited)) return atoi(std::string(text.substr(kExited.size())).c_str()) & 255;
  for (int signal = 1; signal < 32; ++signal) {
    const char* description = signal_meaning(signal);
    if (description && text.starts_with(description)) return 128 + signal;
  }
  return 0;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace tern::mpiexec
