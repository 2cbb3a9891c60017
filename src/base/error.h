// What went wrong below the C API: an MPI error class and a sentence. Success is a null pointer, so that the
// usual path tests one register. Layers add what they know with `context`. Only capi/ turns it into a return
// value; its message names function, argument, value, rank and remedy.
// Thread rule: a value; no sharing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tern {

/// Error classes by the numbers of the standard ABI (MPI 5.0, Annex A.1.1), those that code below capi/ raises.
enum class ErrorClass : int {
  success = 0,
  buffer = 1,
  count = 2,
  type = 3,
  tag = 4,
  comm = 5,
  rank = 6,
  request = 7,
  root = 8,
  group = 9,
  op = 10,
  topology = 11,
  dims = 12,
  arg = 13,
  unknown = 14,
  truncate = 15,
  other = 16,
  intern = 17,
  pending = 18,
  in_status = 19,
  access = 20,
  amode = 21,
  assertion = 22,
  bad_file = 23,
  conversion = 25,
  disp = 26,
  dup_datarep = 27,
  file_exists = 28,
  file_in_use = 29,
  file = 30,
  info_key = 31,
  info_nokey = 32,
  info_value = 33,
  info = 34,
  io = 35,
  keyval = 36,
  locktype = 37,
  name = 38,
  no_mem = 39,
  not_same = 40,
  no_space = 41,
  no_such_file = 42,
  port = 43,
  quota = 44,
  read_only = 45,
  rma_attach = 46,
  rma_conflict = 47,
  rma_range = 48,
  rma_shared = 49,
  rma_sync = 50,
  service = 51,
  size = 52,
  spawn = 53,
  unsupported_datarep = 54,
  unsupported_operation = 55,
  win = 56,
  rma_flavor = 57,
  proc_aborted = 58,
  value_too_large = 59,
  session = 60,
  errhandler = 61,
  abi = 62,
};

class [[nodiscard]] Error {
 public:
  Error() = default;
  /// `error_class` is an MPI error class number (also one not listed in ErrorClass).
  Error(int error_class, std::string text) : info_(std::make_unique<Info>(Info{error_class, std::move(text)})) {}
  Error(ErrorClass error_class, std::string text) : Error(static_cast<int>(error_class), std::move(text)) {}

  /// True when something went wrong.
  explicit operator bool() const { return info_ != nullptr; }
  int error_class() const { return info_ ? info_->error_class : 0; }
  std::string_view text() const { return info_ ? std::string_view(info_->text) : std::string_view(); }
  /// Puts "`what`: " before the text.
  Error&& context(std::string_view what) && {
    if (info_) info_->text.insert(0, ": ").insert(0, what);
    return std::move(*this);
  }

 private:
  struct Info {
    int error_class;
    std::string text;
  };
  std::unique_ptr<Info> info_;
};

}  // namespace tern
