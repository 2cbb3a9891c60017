#include "process/launch/start_info.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace tern {
namespace {

/// Calls `visit` with each part of the text between separators.
template <typename Visit>
bool each_part(std::string_view text, char separator, Visit visit) {
  for (size_t at = 0;;) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (!visit(text.substr(at, end - at))) return false;
    if (end == text.size()) return true;
    at = end + 1;
  }
}

/// One triplet, "a", "a:b" or "a:b:c". False: it is none.
bool parse_triplet(std::string_view text, int64_t& first, int64_t& last, int64_t& step) {
  int64_t numbers[3];
  size_t count = 0;
  const bool good = each_part(text, ':', [&](std::string_view part) {
    if (count == 3) return false;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), numbers[count++]);
    return failure == std::errc() && end == part.data() + part.size();
  });
  if (!good) return false;
  first = numbers[0];
  last = count > 1 ? numbers[1] : first;
  step = count > 2 ? numbers[2] : 1;
  // "If b > a then c must be positive. If b < a then c must be negative."
  return step != 0 && (last == first || (last > first) == (step > 0));
}

}  // namespace

std::string text_of(const StartInfo& info) {
  std::string text;
  for (const auto& [key, value] : info) text += fmt::format("{}{}={}", text.empty() ? "" : ";", key, value);
  return text;
}

StartInfo parse_start_info(std::string_view text) {
  StartInfo info;
  each_part(text, ';', [&](std::string_view entry) {
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) info.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    return true;
  });
  return info;
}

StartInfo start_info() {
  const char* text = secure_getenv(kStartInfoVariable);
  return parse_start_info(text ? text : "");
}

const std::string* find_key(const StartInfo& info, std::string_view key) {
  const auto found = std::find_if(info.begin(), info.end(), [&](const auto& entry) { return entry.first == key; });
  return found == info.end() ? nullptr : &found->second;
}

std::string check_initial_errhandler(std::string_view value) {
  for (const char* name : {"mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"}) {
    if (strcasecmp(std::string(value).c_str(), name) == 0) return {};
  }
  return fmt::format("is mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return, not '{}'", value);
}

std::string check_memory_kinds(std::string_view value) {
  constexpr std::string_view kOdd = "; \t\n=";
  if (value.find_first_of(kOdd) == std::string_view::npos) return {};
  return fmt::format("is a list such as system,mpi:alloc_mem without blanks, not '{}'", value);
}

std::optional<int> soft_number(std::string_view soft, int most) {
  int64_t best = 0;
  const bool good = each_part(soft, ',', [&](std::string_view triplet) {
    int64_t first, last, step;
    if (!parse_triplet(triplet, first, last, step)) return false;
    if (step < 0) {  // the same numbers, the lowest first
      const int64_t lowest = first - (first - last) / -step * -step;
      last = first;
      first = lowest;
      step = -step;
    }
    const int64_t limit = std::min<int64_t>(last, most);
    if (limit >= first) best = std::max(best, first + (limit - first) / step * step);
    return true;
  });
  if (!good) return std::nullopt;
  return int(best);
}

}  // namespace tern
