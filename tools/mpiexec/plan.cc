// The colon grammar and the traditional single-dash long options (-np, -env, -wdir) are read here; each
// segment is turned into what CLI11 knows ("--np", "4") and left to it: types, ranges, help.
#include "plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>

#include "streams.h"

namespace tern::mpiexec {
namespace {

#ifndef TERN_VERSION
#error "TERN_VERSION comes from the build"
#endif

constexpr const char* kUsage =
    "Starts the ranks of an MPI program on this machine.\n\n"
    "  mpiexec [options] program arguments [: [options] program arguments]...\n\n"
    "Options may be written with one dash or two. -n, -env, -wdir, -path and -host hold for one program, the "
    "others for\n"
    "the whole job. The exit code is that of the first rank that fails (128 + n for signal n), 127 when the "
    "program is\n"
    "not found, 124 after a timeout.";

// Segment by segment, the same options; values land here before they are merged into the plan.
struct Words {
  int ranks = 1;
  std::vector<std::string> environment, global_environment, exported, inherited, hosts;
  std::string directory, search_path, host_file, binding;
  int timeout_s = -1, ranks_per_host = 0;
  std::string trace_file;
  int trace_mib = 0;
  bool summary = false;
  bool label = false, verbose = false, inherit_all = false, inherit_none = false, ignored = false;
};

void add_options(CLI::App& app, Words& words) {
  app.set_version_flag("--version,-V", "mpiexec (Tern) " TERN_VERSION);
  app.add_option("-n,--np", words.ranks, "number of ranks")->check(CLI::Range(1, 1 << 20));
  app.add_option("--env", words.environment, "NAME VALUE or NAME=VALUE: set in the environment of this program's ranks")
      ->type_size(1);
  app.add_option("--wdir,--wd", words.directory, "working directory of this program's ranks");
  app.add_option("--path", words.search_path, "where to look for the program, instead of PATH");
  app.add_option("--genv", words.global_environment, "NAME VALUE or NAME=VALUE: set in the environment of all ranks")
      ->type_size(1);
  app.add_option("-x", words.exported, "NAME or NAME=VALUE: pass on to, or set for, all ranks")->type_size(1);
  app.add_flag("--genvall", words.inherit_all, "pass on the whole environment (the default)");
  app.add_flag("--genvnone", words.inherit_none, "pass on nothing of the environment");
  app.add_option("--genvlist", words.inherited, "NAME,NAME...: pass on these variables only")
      ->delimiter(',')
      ->type_size(1);
  app.add_flag("-l,--prepend-rank,--tag-output", words.label, "begin each line of output with its rank");
  app.add_option("--bind-to", words.binding,
                 "auto (default: each rank to its share of the cores when there are enough cores, else "
                 "none), core, none")
      ->check(CLI::IsMember({"auto", "core", "none"}));
  app.add_option("--timeout", words.timeout_s, "seconds after which the job is killed (also: MPIEXEC_TIMEOUT)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--host,--hosts,-H", words.hosts,
                 "HOST,HOST...: where to run; hosts other than this one are left to Slurm, PRRTE, Open MPI or Hydra")
      ->delimiter(',')
      ->type_size(1);
  app.add_option("-f,--hostfile,--machinefile", words.host_file, "file with one host per line, as --host");
  app.add_option("--ppn,--npernode", words.ranks_per_host, "ranks per host, with several hosts")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--summary", words.summary, "print at the end where the time went");
  app.add_option("--trace", words.trace_file, "FILE: write a time line of all ranks, for Perfetto or chrome://tracing");
  app.add_option("--trace-size", words.trace_mib, "MiB that each rank's part of the trace may take (default 256)")
      ->check(CLI::Range(3, 1 << 20));
  app.add_flag("-v,--verbose", words.verbose, "say what is started where");
  app.add_flag("--oversubscribe,--allow-run-as-root", words.ignored, "accepted; both are always allowed");
}

std::string bare(const std::string& word) { return word.substr(word.starts_with("--") ? 2 : 1); }

CLI::Option* find_option(CLI::App& app, const std::string& name) {
  CLI::Option* option = app.get_option_no_throw("--" + name);
  return option || name.size() != 1 ? option : app.get_option_no_throw("-" + name);
}

bool takes_value(CLI::App& app, const std::string& name) {
  CLI::Option* option = find_option(app, name);
  return option && option->get_items_expected_max() > 0;
}

// "-n4".
bool is_joined_count(const std::string& word) {
  return word.size() > 2 && word.starts_with("-n") && word.find_first_not_of("0123456789", 2) == std::string::npos;
}

// Takes the options of one segment from `words` at `at` on; leaves `at` at the program. False: a mistake, in
// `mistake`.
bool collect_options(CLI::App& app, const std::vector<std::string>& words, size_t& at,
                     std::vector<std::string>& options, std::string& mistake) {
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    std::string word = words[at++];
    if (word == "--") break;
    size_t equals = word.find('=');
    std::string name = bare(word.substr(0, equals));
    if (is_joined_count(word)) {
      options.push_back(word);
      continue;
    }
    if (!find_option(app, name)) {
      mistake = fmt::format("unknown option '{}'; mpiexec --help lists the options", word);
      return false;
    }
    std::string canonical = (name.size() == 1 ? "-" : "--") + name;
    if (!takes_value(app, name)) {
      options.push_back(canonical);
      continue;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else {
      if (at == words.size() || words[at] == ":") {
        mistake = fmt::format("option '{}' lacks its value", word);
        return false;
      }
      value = words[at++];
    }
    if ((name == "env" || name == "genv") && value.find('=') == std::string::npos) {
      if (at == words.size() || words[at] == ":") {
        mistake = fmt::format("option '{} {}' lacks the variable's value", word, value);
        return false;
      }
      value += "=" + words[at++];
    }
    options.push_back(canonical);
    options.push_back(value);
  }
  return true;
}

// "NAME" means "with the value it has here"; a name that has none is left out.
std::vector<std::string> with_values(const std::vector<std::string>& names) {
  std::vector<std::string> pairs;
  for (auto& name : names) {
    if (name.find('=') != std::string::npos) {
      pairs.push_back(name);
    } else if (const char* value = getenv(name.c_str())) {
      pairs.push_back(name + "=" + value);
    }
  }
  return pairs;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void merge(const Words& words, Plan& plan, App& app) {
  app.ranks = words.ranks;
  app.environment = words.environment;
  app.directory = words.directory;
  app.search_path = words.search_path;
  app.hosts = words.hosts;
  append(plan.environment, words.global_environment);
  append(plan.environment, with_values(words.exported));
  append(plan.inherited, words.inherited);
  if (words.inherit_none || !words.inherited.empty()) plan.inherit_all = false;
  plan.label |= words.label;
  plan.verbose |= words.verbose;
  if (words.binding == "core") plan.binding = Binding::core;
  if (words.binding == "none") plan.binding = Binding::none;
  if (words.timeout_s > 0) plan.timeout_s = words.timeout_s;
  if (!words.host_file.empty()) plan.host_file = words.host_file;
  plan.summary |= words.summary;
  if (!words.trace_file.empty()) plan.trace_file = words.trace_file;
  if (words.trace_mib > 0) plan.trace_mib = words.trace_mib;
  if (words.ranks_per_host > 0) plan.ranks_per_host = words.ranks_per_host;
}

bool read_timeout(Plan& plan, std::string& mistake) {
  const char* text = getenv("MPIEXEC_TIMEOUT");
  if (!text || !*text || plan.timeout_s > 0) return true;
  char* end = nullptr;
  long seconds = strtol(text, &end, 10);
  if (*end || seconds < 0 || seconds > 1 << 30) {
    mistake = fmt::format("MPIEXEC_TIMEOUT is '{}', but takes a number of seconds", text);
    return false;
  }
  plan.timeout_s = int(seconds);
  return true;
}

int complain(const std::string& mistake) {
  say(mistake);
  return 2;
}

}  // namespace

bool parse_command_line(const std::vector<std::string>& words, Plan& plan, int& exit_code) {
  std::string mistake;
  for (size_t at = 0; at < words.size() || plan.apps.empty();) {
    CLI::App parser(kUsage, "mpiexec");
    Words values;
    add_options(parser, values);
    std::vector<std::string> options;
    if (!collect_options(parser, words, at, options, mistake)) {
      exit_code = complain(mistake);
      return false;
    }
    std::reverse(options.begin(), options.end());  // as CLI11 wants it
    try {
      parser.parse(options);
    } catch (const CLI::CallForHelp&) {
      exit_code = print(parser.help()) ? 0 : 1;
      return false;
    } catch (const CLI::CallForVersion& version) {
      exit_code = print(fmt::format("{}\n", version.what())) ? 0 : 1;
      return false;
    } catch (const CLI::ParseError& error) {
      exit_code = complain(error.what());
      return false;
    }
    App app;
    merge(values, plan, app);
    while (at < words.size() && words[at] != ":") app.command.push_back(words[at++]);
    if (app.command.empty()) {
      exit_code = complain(plan.apps.empty() ? "no program to start; usage: mpiexec -n RANKS PROGRAM [ARGUMENTS]"
                                             : "a ':' is not followed by a program");
      return false;
    }
    plan.apps.push_back(std::move(app));
    if (at < words.size() && ++at == words.size()) {
      exit_code = complain("a ':' is not followed by a program");
      return false;
    }
  }
  if (!read_timeout(plan, mistake)) {
    exit_code = complain(mistake);
    return false;
  }
  return true;
}

}  // namespace tern::mpiexec
