// The grammar: segments between colons, each options, program, arguments. The options themselves are in options.cc.
#include "plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "input_files.h"
#include "options.h"
#include "streams.h"
#include "users_file.h"

namespace tern::mpiexec {
namespace {

#ifndef TERN_VERSION
#error "TERN_VERSION comes from the build"
#endif

using Words = std::vector<std::string>;

std::string bare(const std::string& word) { return word.substr(word.starts_with("--") ? 2 : 1); }

// "-n4".
bool is_joined_count(const std::string& word) {
  return word.size() > 2 && word.starts_with("-n") && word.find_first_not_of("0123456789", 2) == std::string::npos;
}

/// Reads one option at `at`, and advances `at`. Returns what is wrong. `question`: the option asks for help or
/// the version.
std::string read_option(const Words& words, size_t& at, Plan& plan, App& app, const Option*& question) {
  const std::string word = words[at++];
  if (is_joined_count(word)) return find_option("n")->apply(plan, app, "-n", word.substr(2));
  const size_t equals = word.find('=');
  const std::string written = word.substr(0, equals);
  const Option* option = find_option(bare(written));
  if (!option) return about_unknown(word, bare(written));
  const std::string_view takes = option->value;
  if (takes.empty()) {
    if (equals != std::string::npos) return fmt::format("option {} takes no value", written);
    if (!option->apply) {
      question = option;
      return {};
    }
    return option->apply(plan, app, written, "");
  }
  std::string value;
  if (equals != std::string::npos) {
    value = word.substr(equals + 1);
  } else if (at == words.size() || words[at] == ":") {
    return fmt::format("option '{}' lacks its value: {} {}", written, written, takes);
  } else {
    value = words[at++];
  }
  if (takes == "NAME VALUE" && value.find('=') == std::string::npos) {
    if (at == words.size() || words[at] == ":") {
      return fmt::format("option '{} {}' lacks the variable's value", written, value);
    }
    value += "=" + words[at++];
  }
  return option->apply(plan, app, written, value);
}

/// Reads one segment. Returns what is wrong. With a question everything else is ignored.
std::string read_segment(const Words& words, size_t& at, Plan& plan, const Option*& question) {
  App app;
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    if (words[at] == "--") {
      ++at;
      break;
    }
    if (std::string mistake = read_option(words, at, plan, app, question); !mistake.empty() || question) return mistake;
  }
  while (at < words.size() && words[at] != ":") app.command.push_back(words[at++]);
  if (app.command.empty()) {
    return plan.apps.empty() ? "no program to start; usage: " + usage_line() : "a ':' is not followed by a program";
  }
  plan.apps.push_back(std::move(app));
  if (at < words.size() && ++at == words.size()) return "a ':' is not followed by a program";
  return {};
}

std::string read_timeout(Plan& plan) {
  const char* text = getenv("MPIEXEC_TIMEOUT");
  if (!text || !*text || plan.timeout_s > 0) return {};
  char* end = nullptr;
  const long seconds = strtol(text, &end, 10);
  if (*end || seconds < 0 || seconds > 1 << 30) {
    return fmt::format("MPIEXEC_TIMEOUT is '{}', but takes a number of seconds", text);
  }
  plan.timeout_s = int(seconds);
  return {};
}

// Adds the words of the file; else what is wrong with it.
std::string read_config_file(const std::string& path, Words& words) {
  std::string text, why;
  if (!read_users_file(path, text, why)) return fmt::format("configuration file '{}': {}", path, why);
  std::istringstream file(text);
  if (const int line = read_command_words(file, words); line != 0)
    return fmt::format("configuration file '{}', line {}: a quote is open", path, line);
  return {};
}

}  // namespace

std::string settle_ranks(Plan& plan) {
  for (App& app : plan.apps) {
    const int wanted = std::max(app.ranks, 1);
    app.ranks = wanted;
    if (!app.soft.empty()) {
      app.ranks = *soft_number(app.soft, wanted);
      if (app.ranks == 0)
        return fmt::format("-soft {} allows no number of ranks from 1 to {} (-n) for '{}'", app.soft, wanted,
                           app.command[0]);
      app.start_info.emplace_back("soft", app.soft);
    }
    // MPI_INFO_ENV has what this program was asked for, not the whole job (10.2).
    if (!app.soft.empty() || plan.apps.size() > 1) app.start_info.emplace_back("maxprocs", std::to_string(wanted));
    // Of a spawned program the spawning one has said it all.
    const bool said = std::any_of(app.environment.begin(), app.environment.end(), [](const std::string& entry) {
      return entry.starts_with(std::string(kStartInfoVariable) + "=");
    });
    if (!said && !app.start_info.empty())
      app.environment.push_back(fmt::format("{}={}", kStartInfoVariable, text_of(app.start_info)));
  }
  return {};
}

bool parse_command_line(const std::vector<std::string>& given, Plan& plan, int& exit_code) {
  auto complain = [&exit_code](const std::string& mistake) {
    if (!mistake.empty()) {
      say(mistake);
      exit_code = kMistakeExitCode;
    }
    return !mistake.empty();
  };
  Words words = given;
  if (given.size() == 2 && given[0].starts_with('-') && bare(given[0]) == "configfile") {
    words.clear();
    if (complain(read_config_file(given[1], words))) return false;
  }
  for (size_t at = 0; at < words.size() || plan.apps.empty();) {
    const Option* question = nullptr;
    if (complain(read_segment(words, at, plan, question))) return false;
    if (!question) continue;
    exit_code = print(question == find_option("help") ? help_text() : "mpiexec (Tern) " TERN_VERSION "\n") ? 0 : 1;
    return false;
  }
  if (!plan.is_simulated() && !plan.simulate_options.empty() &&
      complain(fmt::format("option '{}' is for simulations: add --simulate MACHINE", plan.simulate_options[0])))
    return false;
  return !complain(read_timeout(plan));
}

}  // namespace tern::mpiexec
