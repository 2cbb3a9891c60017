// Error classes, codes and strings of one rank: the standard's, and what the user adds and removes.
// Codes below the user's are the classes themselves, so that programs may compare return values directly.
// Source: MPI 5.0 sections 9.4, 9.5. Thread rule: under the rank's lock.
#pragma once

#include <map>
#include <string>

#include "base/error.h"

namespace tern::capi {

class ErrorTable {
 public:
  /// MPI_ERR_LASTCODE; the user's classes and codes are above.
  static constexpr int kLastCode = 16383;

  /// The class of a code. False: no such code.
  bool class_of(int code, int& error_class) const;
  /// The text of a code: the standard's or the user's, and what the last error of that class in this rank was
  /// about. False: no such code.
  bool text_of(int code, std::string& text) const;
  /// Keeps the text of an error for text_of.
  void remember(int error_class, const std::string& text) { last_[error_class] = text; }

  int add_class();
  Error add_code(int error_class, int& code);
  Error set_text(int code, std::string text);
  Error remove_class(int error_class);
  Error remove_code(int code);
  Error remove_text(int code);
  /// MPI_LASTUSEDCODE.
  int last_used() const;

 private:
  struct UserCode {
    int error_class;  ///< equal to the code itself for a class
    std::string text;
    bool has_text = false;
  };
  int next_number() const;

  std::map<int, UserCode> user_;
  std::map<int, std::string> last_;
};

/// "MPI_ERR_RANK" …; null for what the standard does not define.
const char* error_class_name(int error_class);

}  // namespace tern::capi
