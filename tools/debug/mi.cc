#include "mi.h"

namespace tern::debug {
namespace {

/// The first quoted string in it, as it was before it was quoted.
std::string unquoted(std::string_view line) {
  std::string text;
  size_t at = line.find('"');
  while (at != line.npos && ++at < line.size() && line[at] != '"') {
    if (line[at] != '\\') {
      text += line[at];
      continue;
    }
    if (++at >= line.size()) break;
    switch (line[at]) {
      case 'n': text += '\n'; break;
      case 't': text += '\t'; break;
      case 'r': text += '\r'; break;
      case 'e': text += '\033'; break;
      case '0':
      case '1':
      case '2':
      case '3': {
        int code = 0;
        for (size_t digits = 0; digits < 3 && at < line.size() && line[at] >= '0' && line[at] <= '7'; ++digits, ++at)
          code = code * 8 + (line[at] - '0');
        --at;
        text += char(code);
        break;
      }
      default: text += line[at];
    }
  }
  return text;
}

}  // namespace

MiLine parse_mi(std::string_view line) {
  using Kind = MiLine::Kind;
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  MiLine parsed;
  for (; !line.empty() && line[0] >= '0' && line[0] <= '9' && parsed.command < 1'000'000'000; line.remove_prefix(1))
    parsed.command = 10 * parsed.command + (line[0] - '0');
  if (line == "(gdb)") {
    parsed.kind = Kind::prompt;
  } else if (line.starts_with('~') || line.starts_with('@')) {
    parsed = {Kind::text, 0, unquoted(line)};
  } else if (line.starts_with("^error")) {
    parsed.kind = Kind::error;
    parsed.text = unquoted(line);
  } else if (line.starts_with("^running") || line.starts_with("*running")) {
    parsed.kind = Kind::running;
  } else if (line.starts_with("*stopped")) {
    parsed.kind = Kind::stopped;
  } else if (line.starts_with('^')) {
    parsed.kind = Kind::done;
  }
  return parsed;
}

std::string mi_command(long number, std::string_view typed) {
  std::string command = std::to_string(number) + "-interpreter-exec console \"";
  for (const char c : typed) {
    if (c == '"' || c == '\\') command += '\\';
    command += c;
  }
  return command + "\"\n";
}

}  // namespace tern::debug
