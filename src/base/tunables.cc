#include "base/tunables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

namespace tern {
namespace {

constexpr TunableRow kTunables[] = {
#define TERN_ROW(name_, initial_, minimum_, maximum_, unit_, agree, meaning_) \
  {.name = #name_,                                                            \
   .is_integer = true,                                                        \
   .initial = initial_,                                                       \
   .minimum = minimum_,                                                       \
   .maximum = maximum_,                                                       \
   .initial_text = nullptr,                                                   \
   .unit = unit_,                                                             \
   .ranks_must_agree = agree,                                                 \
   .meaning = meaning_},
    TERN_INTEGER_TUNABLES(TERN_ROW)
#undef TERN_ROW
#define TERN_ROW(name_, initial_, meaning_) \
  {.name = #name_,                          \
   .is_integer = false,                     \
   .initial = 0,                            \
   .minimum = 0,                            \
   .maximum = 0,                            \
   .initial_text = initial_,                \
   .unit = "",                              \
   .ranks_must_agree = false,               \
   .meaning = meaning_},
        TERN_TEXT_TUNABLES(TERN_ROW)
#undef TERN_ROW
};

// Variables of Tern that are not tunables: mpiexec's messages to its ranks, variables of the compiler wrappers, and
// variables that are read before there is a rank.
constexpr std::string_view kNotTunables[] = {
    "JOB_KEY",       "JOB_ID",      "LOCAL_SIZE",   "LOCAL_RANK", "STDERR", "CORES",    "CONFIG",
    "HANG_REPORT",   "CC",          "CXX",          "FC",         "PREFIX", "LAUNCHER", "RECORD",
    "RECORD_EVENTS", "PARENT_PORT", "SPAWN_ANSWER", "BACKTRACE",  "CHECK",  "AGENT",    "AGENT_MPIEXEC",
    "AGENT_WIDTH",   "START_INFO"};
// Of these, the ones that users may set.
constexpr std::string_view kOfUsers[] = {"CONFIG", "HANG_REPORT", "BACKTRACE", "CHECK",         "LAUNCHER",   "CC",
                                         "CXX",    "FC",          "AGENT",     "AGENT_MPIEXEC", "AGENT_WIDTH"};

// Former names of tunables and their present names, so that settings in use still work.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {{"tcp_encrypt", "encrypt"}};

// Levenshtein distance, for "did you mean".
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return out;
}

std::string lower(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return out;
}

// Proposes a tunable for an unknown `name` (lower case): one that begins with it, else one that differs in few letters.
// Empty: nothing is near.
std::string nearest(std::string_view name) {
  std::string continued, near;
  size_t least = name.size() / 3 + 2;  // a quarter to a half of the letters may be wrong: more is another name
  auto consider = [&](std::string_view candidate) {
    if (!name.empty() && candidate.starts_with(name) && (continued.empty() || candidate.size() < continued.size())) {
      continued = candidate;
    }
    if (size_t letters = distance(name, candidate); letters < least) {
      least = letters;
      near = candidate;
    }
  };
  for (const TunableRow& row : kTunables) consider(row.name);
  for (std::string_view other : kOfUsers) consider(lower(other));
  return continued.empty() ? near : continued;
}

std::string unknown(std::string_view name) {
  const std::string meant = nearest(name);
  return "there is no tunable TERN_" + upper(name) +
         (meant.empty() ? "" : "; the nearest name is TERN_" + upper(meant)) +
         ". `tern-info --tunables` lists them all";
}

// Bytes may carry a suffix: 64K, 1M, 2G.
bool parse_integer(std::string_view text, int64_t& value) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return false;
  std::string_view suffix(end, size_t(text.data() + text.size() - end));
  if (suffix.empty()) return true;
  if (suffix.size() != 1) return false;
  switch (suffix[0]) {
    case 'k':
    case 'K': value <<= 10; return true;
    case 'm':
    case 'M': value <<= 20; return true;
    case 'g':
    case 'G': value <<= 30; return true;
    default: return false;
  }
}

}  // namespace

std::span<const TunableRow> tunable_rows() { return kTunables; }

std::string_view present_name(std::string_view name) {
  for (const auto& [former, now] : kFormerNames) {
    if (name == former) return now;
  }
  return name;
}

std::string renamed(std::string_view name) {
  return "TERN_" + upper(name) + " is called TERN_" + upper(present_name(name)) + " now";
}

std::string Tunables::get(std::string_view name) const {
#define TERN_GET(member, ...) \
  if (name == #member) return std::to_string(member);
  TERN_INTEGER_TUNABLES(TERN_GET)
#undef TERN_GET
#define TERN_GET(member, ...) \
  if (name == #member) return member;
  TERN_TEXT_TUNABLES(TERN_GET)
#undef TERN_GET
  return {};
}

Error Tunables::set(std::string_view name, std::string_view value) {
  const TunableRow* row =
      std::find_if(std::begin(kTunables), std::end(kTunables), [&](auto& r) { return r.name == name; });
  if (row == std::end(kTunables)) return Error(ErrorClass::arg, unknown(name));
  if (!row->is_integer) {
#define TERN_SET(member, ...) \
  if (name == #member) member = value;
    TERN_TEXT_TUNABLES(TERN_SET)
#undef TERN_SET
    return {};
  }
  int64_t number = 0;
  if (!parse_integer(value, number) || number < row->minimum || number > row->maximum) {
    return Error(ErrorClass::arg, "TERN_" + upper(name) + " is '" + std::string(value) +
                                      "', but takes a whole number from " + std::to_string(row->minimum) + " to " +
                                      std::to_string(row->maximum) + (*row->unit ? std::string(" ") + row->unit : ""));
  }
#define TERN_SET(member, ...) \
  if (name == #member) member = number;
  TERN_INTEGER_TUNABLES(TERN_SET)
#undef TERN_SET
  return {};
}

Error Tunables::read_environment(const char* const* environment, std::vector<std::string>* warnings) {
  Error first;
  for (; environment && *environment; ++environment) {
    std::string_view entry(*environment);
    size_t equals = entry.find('=');
    if (!entry.starts_with("TERN_") || equals == std::string_view::npos) continue;
    std::string_view name = entry.substr(5, equals - 5);
    if (std::find(std::begin(kNotTunables), std::end(kNotTunables), name) != std::end(kNotTunables)) continue;
    const std::string given = lower(name);
    const std::string_view tunable = present_name(given);
    if (tunable != given && warnings) warnings->push_back(renamed(given));
    if (std::none_of(std::begin(kTunables), std::end(kTunables), [&](auto& row) { return row.name == tunable; })) {
      if (warnings) warnings->push_back(unknown(tunable) + "; it is ignored");
      continue;
    }
    Error error = set(tunable, entry.substr(equals + 1));
    if (error && !first) first = std::move(error);
  }
  return first;
}

}  // namespace tern
