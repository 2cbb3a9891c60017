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

std::string without_slots(const std::string& host) {
  return std::count(host.begin(), host.end(), ':') == 1 ? host.substr(0, host.find(':')) : host;
}

std::vector<std::string> read_hosts(std::istream& file) {
  std::vector<std::string> hosts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    // ":4" names no host.
    if (std::string host; words >> host && !(host = without_slots(host)).empty()) hosts.push_back(host);
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
