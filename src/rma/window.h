// Window: what MPI_Win stands for (MPI 5.0, chapter 12), one rank's part of it: the parts, made and ended together.
//
//   memory_map.h   where each rank's memory is, and how this rank reaches it
//   apply.h        what operations do to memory: the only code that changes it
//   operations.h   put, get, accumulate ... at the origin; each takes one of the routes (routes/route.h)
//   access.h       the origin's epochs: fence, start, complete, lock, unlock, flush; completion.h waits for the end
//   exposure.h     the target: post, wait, the queue of its lock, serving what comes
//
// A part knows only parts above it in this list. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "rma/access.h"
#include "rma/hints.h"
#include "rma/window_gate.h"

namespace tern::rma {

class Window {
 public:
  struct Plan {
    Flavor flavor;
    void* base;  ///< create only
    Aint size;
    Aint disp_unit;
    const Info* info;  ///< null: none
  };
  /// Collective. Errors are the same at all ranks, with the reason of the first that failed.
  static Error create(Environment& environment, Communicator& comm, const Plan& plan, std::unique_ptr<Window>& made);
  /// Error: an epoch is open.
  Error may_be_freed() const { return access_.not_idle("freed"); }
  /// Collective; only if it may be freed. Afterwards only destruction.
  Error free();
  /// Without `free` (an error in `create`, or this rank has lost others): drops what has not begun, and waits for what
  /// paths and adapters are doing for this rank. Others send it nothing any more.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  uint64_t id() const { return context_.id(); }
  Communicator& comm() const { return *context_.comm; }
  Flavor flavor() const { return context_.flavor; }
  std::string& name() { return context_.name; }
  MemoryMap& memory() { return memory_; }
  const MemoryMap& memory() const { return memory_; }
  const Hints& hints() const { return hints_; }
  void set_info(const Info& info) {
    hints_.take(info, false);
    context_.lock_at_once = hints_.lock_at_once;
  }
  void tell_info(Info& info) const;
  /// What this rank waits for in this window; lines.
  std::string report() const;
  /// Operations of others need this rank's processor. Constant.
  bool serves() const { return context_.serves; }
  /// A thread of each rank polls all the time, so that locks are served at once (Jiang et al. 2004, section 4.1).
  bool wants_polls() const;
  /// The design of its locks that was asked for (TERN_RMA_LOCK) needs words that not all of its ranks can reach: what
  /// is used instead. Null: it is as asked.
  const char* lock_substitute() const;

  /// `request`: null, or where the request of a request form goes.
  Error begin(const Operation& operation, Request** request) { return operations_.begin(operation, request); }
  Access& access() { return access_; }

  // --- Without the rank's lock (window_gate.h): of short calls. Inside of the gate.
  WindowGate& gate() { return gate_; }
  /// A put or a get of bytes that lie together, in memory that this rank reaches. False: nothing has happened.
  bool move_shortly(const Operation& operation) const { return operations_.move_shortly(operation); }
  /// Nothing is on its way to that rank, whose memory this rank reaches, and its lock is held.
  bool is_flushed(int rank) const { return operations_.is_flushed(rank); }
  // --- Of other calls. `may_open`: short calls may follow.
  void begin_visit() { gate_.begin_visit(context_.counters()); }
  void end_visit(bool may_open) {
    gate_.end_visit([&] { return may_open && operations_.may_be_read(); });
  }
  void close_gate() { gate_.close(context_.counters()); }

  // --- What comes (Environment). `from` is a rank of the window.
  Exposure& exposure() { return exposure_; }
  void take_answers(int from, std::span<const std::byte> records) {
    operations_.records().take_answers(operations_.target(from), records);
  }
  /// Something that this rank waits for in shared memory may have changed.
  void take_nudge() { context_.progress().notify(); }
  /// Where the data of an operation or a result go; false: it is expected by nobody.
  bool land(const wire::Header& header, size_t bytes, Landing& landing);
  void landed(const wire::Header& header, Error error);
  void lose(int rank, const Error& error);

 private:
  friend class Making;
  Window(Environment& environment, const Plan& plan);

  bool nothing_under_way() const;
  void end_under_way();
  void take_cell(int from, std::span<const std::byte> answers);

  WindowContext context_;
  WindowGate gate_;
  Hints hints_;
  LockChoice lock_choice_ = LockChoice::automatic;
  MemoryMap memory_;
  OriginLocks locks_;
  Apply apply_;
  Waiting waiting_;
  Operations operations_;
  Exposure exposure_;
  Access access_;
  std::unique_ptr<NodeEpochs> counts_;  ///< null: no memory is shared
  bool freed_ = false;
};

}  // namespace tern::rma
