// The line that a user types at a terminal, with arrows, history and search, by libedit where it is installed (found at
// run time, as libfabric is; its licence is BSD's). Without it there is the terminal's own editing: nothing else
// changes. Thread rule: one thread, one editor.
#pragma once

#include <memory>
#include <string>

namespace tern::debug {

class LineEditor {
 public:
  /// Null: standard input is no terminal, or there is no libedit.
  static std::unique_ptr<LineEditor> load();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Taken {
    part,   ///< of a line
    line,   ///< it is whole, and in the history
    ended,  ///< Ctrl-D
  };
  /// Shows the prompt. The terminal gives single keys from now on, until a line is whole.
  void begin(const std::string& prompt);
  /// There is a key to read.
  Taken take(std::string& line);
  /// Prints above what the user has typed so far. The prompt and that stand below it again.
  void print_above(const std::string& text);

 private:
  struct Library;
  explicit LineEditor(std::unique_ptr<Library> library);
  void end();

  std::unique_ptr<Library> library_;
  bool open_ = false;  ///< between prompt and line
};

}  // namespace tern::debug
