// What flows between the user's terminal and the ranks when mpiexec stands in between: labelled output, and a
// terminal's input to rank 0. (Otherwise the ranks hold mpiexec's own descriptors, and nothing flows through
// here.)
//
// Thread rule: the event loop. Nothing here blocks: a slow reader of ours slows the ranks down through their
// pipes.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Our stdout or stderr.
class Sink {
 public:
  explicit Sink(int descriptor);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  const char* name() const { return descriptor_ == 1 ? "standard output" : "standard error"; }
  /// To watch for writing.
  int descriptor() const { return own_ >= 0 ? own_ : descriptor_; }
  void add(std::string_view text) { waiting_ += text; }
  /// Writes what the descriptor takes now. Not 0: an errno (EPIPE: nobody reads it any more); what was waiting has been
  /// dropped.
  int flush();
  size_t waiting() const { return waiting_.size(); }
  void drop() { waiting_.clear(); }

 private:
  ssize_t write_some(const char* data, size_t bytes) const;

  enum class Way { plain, polled, socket };
  int descriptor_;
  int own_ = -1;  ///< the same pipe or terminal, opened anew without blocking; -1: none
  Way way_ = Way::plain;
  std::string waiting_;
};

/// Writes "mpiexec: `message`" to standard error at once, where no Job takes care of it. Nothing can be done when it is
/// closed or full.
void say(std::string_view message);
/// Writes `text` to standard output. False, said on standard error: it cannot be.
bool print(std::string_view text);
/// Writes `text` to standard error. False: it cannot be.
bool print_error(std::string_view text);

/// The output pipe of one rank: handed on as it comes, or in whole lines with a label before each. For a rank on
/// another host there is no pipe: what comes from there is given to take().
class OutputPipe {
 public:
  /// `sink`: null, for the file alone. `file`: gets everything, too, without labels; -1: there is none. Ours from now
  /// on.
  OutputPipe(std::string label, Sink* sink, int file) : label_(std::move(label)), sink_(sink), file_(file) {}
  ~OutputPipe();
  OutputPipe(OutputPipe&& other) noexcept;
  OutputPipe& operator=(OutputPipe&&) = delete;
  /// Makes the pipe; returns the rank's end (close-on-exec), -1: errno.
  int open();
  int descriptor() const { return descriptor_; }
  /// Reads what is there; closes the descriptor at the end of the stream. Not 0: the errno with which the file has lost
  /// some, once.
  int pump();
  /// Output of the rank; returns as pump().
  int take(std::string_view text);
  /// There will be no more.
  void end();

 private:
  void add_lines();
  int store(std::string_view text);

  std::string label_;
  Sink* sink_;
  int file_;
  int descriptor_ = -1;
  std::string line_;  ///< begun, newline not seen yet
};

/// A terminal's input, read only while we are in the foreground, to rank 0.
class TerminalInput {
 public:
  ~TerminalInput();
  /// Returns rank 0's end of the pipe (close-on-exec), -1: errno.
  int open();
  bool is_open() const { return pipe_ >= 0; }
  bool in_foreground() const;
  /// Descriptors to watch: the terminal for reading when wants_input(), the pipe for writing when
  /// has_unsent().
  int pipe_descriptor() const { return pipe_; }
  bool wants_input() const { return is_open() && !ended_ && unsent_.empty() && in_foreground(); }
  bool has_unsent() const { return is_open() && !unsent_.empty(); }
  void read_terminal();
  void flush();
  void close_pipe();

 private:
  int pipe_ = -1;
  bool ended_ = false;
  std::string unsent_;
};

}  // namespace tern::mpiexec
