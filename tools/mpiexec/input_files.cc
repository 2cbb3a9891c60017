#include "input_files.h"

#include <algorithm>
#include <sstream>

namespace tern::mpiexec {
namespace {

// One line's words, as a shell separates them: blanks, quotes of both kinds, backslashes. False: a quote is open.
bool split_line(const std::string& line, std::vector<std::string>& words) {
  std::string word;
  bool begun = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == quote) quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < line.size()) word += line[++i];
      else word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      begun = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (begun) words.push_back(word);
      word.clear();
      begun = false;
    } else {
      word += c == '\\' && i + 1 < line.size() ? line[++i] : c;
      begun = true;
    }
  }
  if (begun) words.push_back(word);
  return quote == 0;
}

}  // namespace

std::vector<Host> read_hosts(std::istream& file) {
  constexpr std::string_view kSlots = "slots=";
  std::vector<Host> hosts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    Host host = parse_host(word);
    while (words >> word) {
      if (word.starts_with(kSlots)) host.slots = parse_host("x:" + word.substr(kSlots.size())).slots;
    }
    if (!host.name.empty()) hosts.push_back(host);  // ":4" names no host
  }
  return hosts;
}

int read_command_words(std::istream& file, std::vector<std::string>& words) {
  std::string line, part;
  for (int number = 1; std::getline(file, part); ++number) {
    line += part;
    if (line.ends_with('\\')) {
      line.back() = ' ';
      if (file.peek() != std::istream::traits_type::eof()) continue;
    }
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos && line[first] != '#') {
      if (!words.empty() && words.back() != ":") words.push_back(":");
      if (!split_line(line, words)) return number;
    }
    line.clear();
  }
  if (!words.empty() && words.back() == ":") words.pop_back();
  return 0;
}

}  // namespace tern::mpiexec
