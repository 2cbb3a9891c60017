#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace tern {
namespace {
constexpr std::string_view kWords[] = {"error", "warn", "info", "debug"};
constexpr std::string_view kLabels[] = {"error", "warning", "info", "debug"};
}  // namespace

Error parse_log_level(std::string_view word, LogLevel& level) {
  for (int i = 0; i < 4; ++i) {
    if (word == kWords[i]) {
      level = LogLevel(i);
      return {};
    }
  }
  return Error(ErrorClass::arg, fmt::format("TERN_LOG is '{}', but takes error, warn, info or debug", word));
}

void Log::write_slow(LogLevel level, std::string_view text) const {
  std::string rank = rank_ < 0 ? std::string() : fmt::format(" rank {}", rank_);
  std::string line = fmt::format("[tern{}] {}: {}\n", rank, kLabels[int(level)], text);
  size_t written = 0;
  while (written < line.size()) {
    ssize_t n = ::write(descriptor_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // nobody to tell
    written += size_t(n);
  }
}

}  // namespace tern
