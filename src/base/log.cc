#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/owned_file.h"

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
  return Error(ErrorClass::arg,
               fmt::format("TERN_LOG is '{}', but takes error, warn, info or debug, and then :FILE if it likes", word));
}

Log::~Log() {
  if (owned_) close(descriptor_);
}

Error Log::configure(std::string_view wish, int rank) {
  rank_ = rank;
  size_t colon = std::min(wish.find(':'), wish.size());
  if (Error error = parse_log_level(wish.substr(0, colon), level_)) return error;
  std::string_view file = wish.substr(std::min(colon + 1, wish.size()));
  if (file.empty()) return {};
  std::string path;
  for (size_t i = 0; i < file.size(); ++i) {
    char letter = file[i] == '%' && i + 1 < file.size() ? file[i + 1] : '\0';
    char host[256] = "";
    switch (letter) {
      case 'r': path += std::to_string(rank); break;
      case 'p': path += std::to_string(getpid()); break;
      case 'h':
        gethostname(host, sizeof host - 1);
        path += host;
        break;
      default: path += file[i]; continue;
    }
    ++i;
  }
  std::string why;
  Descriptor opened = open_own_file(path, O_APPEND, why);
  if (!opened) return Error(ErrorClass::arg, fmt::format("TERN_LOG: {} cannot be written: {}", path, why));
  if (owned_) close(descriptor_);
  descriptor_ = opened.release();
  owned_ = true;
  return {};
}

void Log::write_slow(LogLevel level, std::string_view text) const {
  std::string rank = rank_ < 0 ? std::string() : fmt::format(" rank {}", rank_);
  std::string line = fmt::format("[tern{}] {}: {}\n", rank, kLabels[int(level)], text);
  const int callers_errno = errno;
  size_t written = 0;
  while (written < line.size()) {
    ssize_t n = ::write(descriptor_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;  // an error of the log itself cannot be reported anywhere
    written += size_t(n);
  }
  errno = callers_errno;
}

}  // namespace tern
