// The keeper: a process of its own that starts the processes of the job, waits for them, and ends them all. It briefly
// outlives mpiexec, however mpiexec ends:
//
//   mpiexec  -- orders -->  tern-keeper  -- fork, exec -->  rank  -->  what the rank starts
//            <- reports --  (child subreaper)
//
// The kernel gives every process whose parent has ended to the nearest ancestor that is a child subreaper (prctl(2)).
// So all processes that the ranks start stay descendants of the keeper, also in process groups and sessions of their
// own (timeout, setsid, shells with job control). When mpiexec's end of the socket closes, the keeper kills them all.
// If the keeper itself is killed, the ranks become children of mpiexec, which is a subreaper, too, and continues
// without it.
//
// The keeper leads the process group of the ranks, blocks all signals that can be blocked, holds no stream of mpiexec's
// open, and is not called mpiexec, so that `pkill mpiexec` does not find it.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "keeper_messages.h"

namespace tern::mpiexec {

class Keeper {
 public:
  Keeper() = default;
  /// Kills what is left of the job; the keeper has ended afterwards.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Starts the keeper. `argv` of main: its text is the keeper's name in ps. Error: false, errno says why.
  bool start(char** argv);

  /// Readable when there may be reports; -1 without a keeper.
  int descriptor() const { return socket_; }
  /// Starts a process, known from now on as `id` (from 0 on); reports tell whether that worked. The descriptors of
  /// `spec` stay the caller's. False: errno says why.
  bool start_child(int id, const ChildSpec& spec);
  void signal_one(int id, int signal);
  void signal_all(int signal);
  /// The next report that is here, without waiting.
  bool next(Report& report);
  /// The kernel is ending some process whose end was not reported yet.
  bool some_end_soon() const;
  /// Waits until the ends of all processes that have ended by now are among the reports.
  void sync();
  /// Kills every process of the job. Returns those that the kernel does not end.
  std::vector<pid_t> end_all();
  /// After mpiexec's end the folder is removed with the files in it, if it still exists then.
  void sweep(const std::string& folder);

 private:
  bool order(const Order& order);
  bool receive(bool wait);
  void lose();
  void reap_own();

  int socket_ = -1;
  pid_t pid_ = -1;
  std::string partial_;           ///< bytes of a report that has not come whole
  std::deque<Report> reports_;    ///< come, not taken
  std::map<int, pid_t> started_;  ///< processes that have started and not ended, by id
};

}  // namespace tern::mpiexec
