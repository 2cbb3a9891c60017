// What a rank tells its mpiexec about what it waits for, and the lines in which it does so. They go over the connection
// for PMI-1 (pmi1.cc), which only Tern's own mpiexec understands them on:
//
//   cmd=tern_hello signal=61 pid=123 pids=4026531836    this rank answers that signal with tern_place; `pids` is the
//                                            inode of /proc/self/ns/pid: the process is known by this number there.
//                                            Then at0=4096 bytes0=64 at1=...: memory of the rank that changes when
//                                            the program communicates, for mpiexec to look at
//   cmd=tern_place inside=1 call=MPI_Recv text=main (a.c:7)          from the signal handler: where it is
//   cmd=tern_wait told=1 certain=1 ms=10000 call=MPI_Recv text=main (a.c:7)     then its parts, then the end:
//   cmd=tern_pending kind=0 user=1 peer=1 source=1 tag=7 bytes=4 text=MPI_COMM_WORLD
//   cmd=tern_collective text=MPI_COMM_WORLD, root 0       the blocking collective that it waits in
//   cmd=tern_moving                          something is on its way; the notes say what
//   cmd=tern_note text=...
//   cmd=tern_wait_end
//   cmd=tern_going                           what was told with told=1 is over
//   cmd=tern_differs                         the ranks call different collectives: the abort that follows needs a page
//   cmd=tern_failing                         an error will follow
//   cmd=tern_error head=1 text=...           a line of the error with which the rank ends; head: one that its name
//                                            belongs before. mpiexec prints the errors of ranks that say the same as
//                                            one
//
// `text` is the last field and reaches to the end of the line. Thread rule: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "p2p/pending.h"

namespace tern {

/// What a rank waits for.
struct WaitReport {
  bool told = false;     ///< by itself, since it has waited for long; it will say when it goes on
  bool certain = false;  ///< only messages of this job's ranks can end the wait
  uint64_t waited_ms = 0;
  std::string call;        ///< "MPI_Recv"; empty: unknown
  std::string place;       ///< where the program called it; empty: unknown
  std::string collective;  ///< in a blocking collective: its communicator and root, in words; empty: in none
  bool moving = false;     ///< something is on its way to or from this rank
  std::vector<PendingMessage> pending;
  std::vector<std::string> notes;  ///< of other kinds (windows, partitioned), in words
};

/// A piece of a rank's memory, which another process reads.
struct MemoryRange {
  uint64_t at = 0, bytes = 0;
};
/// What tells that the program communicates: counters of messages, collectives, windows and files.
inline constexpr size_t kActivityRanges = 4;
using Activity = std::array<MemoryRange, kActivityRanges>;
/// The line with which a rank says that it answers `signal`.
std::string hello_line(int signal, const Activity& activity);

/// The inode of /proc/self/ns/pid; 0: unknown.
uint64_t process_numbers();

/// Messages, and notes, of one rank's report that are passed on: together a page.
inline constexpr size_t kMaxReported = 10;

/// The report in lines, each with its newline.
std::string to_lines(const WaitReport& report);

/// A line of the error with which a rank ends, without the rank's name.
struct ErrorLine {
  bool head = true;  ///< the rank's name belongs before it
  std::string text;
  bool operator==(const ErrorLine&) const = default;
};
/// Lines and characters of one rank's error that are passed on: a backtrace, names of templates.
inline constexpr size_t kMaxErrorLines = 64, kMaxErrorText = 2000;
/// A rank's name, as its errors begin.
std::string rank_prefix(int rank);
/// The text of an error in lines for mpiexec, each with its newline; `prefix` is left out.
std::string error_lines(std::string_view text, std::string_view prefix);
/// "12:345", device and inode of an open file; empty: it is none. As a variable of this name mpiexec tells a rank what
/// its standard error is.
std::string file_name_of(int descriptor);
inline constexpr const char* kStandardErrorVariable = "TERN_STDERR";
/// Whether this process's standard error is still what mpiexec has given it, so that mpiexec may write errors there in
/// its place. For signal handlers, too.
bool mpiexec_writes_errors();

/// What mpiexec knows of a rank from its lines. Trusts nothing: what is not understood is left out, and it keeps a
/// bounded number of short texts.
class RankReport {
 public:
  /// False: not a line of these. `process_numbers`: this process's own inode of /proc/self/ns/pid; a rank that has
  /// another cannot be sent signals.
  bool take(std::string_view line, uint64_t process_numbers);
  /// A new question: forgets the answer to the last one.
  void ask() { placed_ = waiting_ = false; }

  /// Its error so far, and forgets it: the error is printed once.
  std::vector<ErrorLine> take_error() { return std::exchange(error_, {}); }
  bool has_error() const { return !error_.empty(); }
  bool is_failing() const { return failing_; }  ///< it has begun to tell an error
  /// The ranks do not call the same, it has said.
  bool differs() const { return differs_; }
  int signal() const { return signal_; }  ///< 0: the rank does not answer questions
  int pid() const { return pid_; }
  /// In the memory of `pid`; ranges of no bytes: unknown.
  const Activity& activity() const { return activity_; }
  bool placed() const { return placed_; }  ///< the signal was answered
  bool inside() const { return inside_; }  ///< then: in an MPI call
  /// A complete WaitReport has come since the last question, or is still true.
  bool waits() const { return waiting_ || told_; }
  /// It has waited for long, and has not gone on since.
  bool stalled() const { return told_ && report_.certain; }
  const std::string& call() const { return waits() ? report_.call : call_; }
  const std::string& place() const { return waits() ? report_.place : place_; }
  const WaitReport& wait() const { return report_; }

 private:
  int signal_ = 0, pid_ = 0;
  Activity activity_{};
  bool placed_ = false, inside_ = false, waiting_ = false, told_ = false, differs_ = false, failing_ = false;
  std::string call_, place_;
  WaitReport report_, coming_;
  std::vector<ErrorLine> error_;
};

}  // namespace tern
