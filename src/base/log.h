// Log lines: one per event, "[tern rank 3] warning: text". TERN_LOG chooses level and place: LEVEL or LEVEL:FILE, where
// %r in FILE is the rank, %h the host, %p the process. Messages are for people. The code that first identifies an error
// logs it, once.
//
// Thread rule: log() may be called from any thread; each line is one write, so lines are never mixed.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tern {

enum class LogLevel : int { error = 0, warn = 1, info = 2, debug = 3 };

/// "error", "warn", "info", "debug" to a level. Error: any other word.
Error parse_log_level(std::string_view word, LogLevel& level);

class Log {
 public:
  /// `descriptor` is borrowed. `rank` -1: not known (yet), the prefix is then just "[tern]".
  explicit Log(LogLevel level = LogLevel::warn, int rank = -1, int descriptor = 2)
      : level_(level), rank_(rank), descriptor_(descriptor) {}
  Log(Log&& other) noexcept { *this = std::move(other); }
  Log& operator=(Log&& other) noexcept {
    level_ = other.level_;
    rank_ = other.rank_;
    std::swap(descriptor_, other.descriptor_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~Log();

  /// As TERN_LOG says; a file is appended to. Error: no such level, or the file cannot be written.
  Error configure(std::string_view wish, int rank);

  /// Ask this before building an expensive text.
  bool wants(LogLevel level) const { return level <= level_; }

  void error(std::string_view text) const { write(LogLevel::error, text); }
  void warn(std::string_view text) const { write(LogLevel::warn, text); }
  void info(std::string_view text) const { write(LogLevel::info, text); }
  void debug(std::string_view text) const { write(LogLevel::debug, text); }

 private:
  void write(LogLevel level, std::string_view text) const {
    if (wants(level)) write_slow(level, text);
  }
  void write_slow(LogLevel level, std::string_view text) const;

  LogLevel level_ = LogLevel::warn;
  int rank_ = -1;
  int descriptor_ = 2;
  bool owned_ = false;  ///< the destructor closes the descriptor
};

}  // namespace tern
