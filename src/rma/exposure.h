// Exposure: a window at its target: who may access it (the queue of its lock, MPI_Win_post and MPI_Win_wait), and what
// origins ask for, which is carried out in the order in which it comes, and answered.
//
// All of one origin and one target stays in order, so one confirmation stands for everything before it, and accumulates
// are ordered. One target carries out records of all origins one after the other, so they are atomic.
// Units: bytes. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <span>
#include <string>

#include "rma/apply.h"
#include "rma/lock_queue.h"
#include "rma/origin_epoch.h"
#include "rma/own_lock_share.h"
#include "rma/source.h"
#include "rma/waiting.h"

namespace tern::rma {

class Answers;
struct ResultSend;

class Exposure {
 public:
  Exposure(WindowContext& context, const MemoryMap& memory, const Apply& apply, Waiting& waiting)
      : context_(context), memory_(memory), apply_(apply), waiting_(waiting) {}
  Exposure(const Exposure&) = delete;
  Exposure& operator=(const Exposure&) = delete;

  // --- Exposure epochs (MPI 5.0, 12.5.2). `counts`: null where no memory is shared.
  void set_counts(NodeEpochs* counts) { counts_ = counts; }
  /// The group's ranks, of the window.
  Error members(Group& group, EpochGroup& members) const;
  Error post(Group& group, bool told);
  Error wait();
  Error test(bool& flag);
  bool is_posted() const { return posted_; }

  // --- What comes. `from` is a rank of the window.
  /// `confirm`: the number of the confirmation that is asked for behind the records; 0: none.
  /// `room`: where the answers go if they fit, else they go as messages. Returns how many bytes of them are there.
  size_t serve(int from, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room = {});
  /// Where the data of an operation go; false: they are expected by nobody.
  bool land(int from, size_t bytes, Landing& landing);
  void landed(int from, const Error& error);
  void lose(int rank);

  // --- The lock of this rank, whose queue it keeps.
  /// Before this rank takes it: polls for a moment, so that others come in time (own_turns.h).
  void let_others_come();

  /// No result is being read from the window for another rank.
  bool is_silent() const;
  /// What this rank's window waits for, in lines that `add` takes.
  void report(const std::function<void(const std::string&)>& add) const;

 private:
  friend class Answers;
  friend struct ResultSend;
  Source& source(int rank);
  // serving.cc
  bool serve_short(std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room, size_t& answered);
  void carry_out(Source& from, std::span<const std::byte> records, Answers& answers);
  void learn_type(Source& from, const wire::WindowRecord& head, wire::WindowReader& in, Answers& answers);
  void read_operation(Source& from, const wire::WindowRecord& head, wire::WindowReader& in, Answers& answers);
  void read_brief(Source& from, const wire::WindowRecord& head, wire::WindowReader& in, Answers& answers);
  void operate(Source& from, const wire::WindowRecord& head, const wire::WindowOperationBody& body,
               std::span<const std::byte> data, Answers& answers);
  void perform(const wire::WindowRecord& head, const wire::WindowOperationBody& body, std::span<const std::byte> data,
               const Cursor& cursor, const Datatype& type, Answers& answers);
  const char* wrong_with(const wire::WindowRecord& head, const wire::WindowOperationBody& body,
                         const Datatype& type) const;
  Error locate(Source& from, const wire::WindowOperationBody& body, Cursor& cursor, const Datatype*& type) const;
  // exposure.cc
  void grant_ready();
  void end_access(Source& from);
  void result_left(Source& from);
  bool ask_lock(Source& from, LockMode mode, std::span<const std::byte> rest, Answers& answers);
  void refuse_lock(Source& from, Answers& answers);
  bool is_over();
  Error end_epoch();

  /// A rank that shares its core with others, four or so, comes again after some 10 us; one that must be woken on
  /// another core, after 40.
  static constexpr uint64_t kOwnPatience_ns = 100'000;

  WindowContext& context_;
  const MemoryMap& memory_;
  const Apply& apply_;
  Waiting& waiting_;
  NodeEpochs* counts_ = nullptr;
  std::vector<std::unique_ptr<Source>> sources_;
  LockQueue locks_;
  OwnLockShare own_turns_;
  std::vector<std::byte> spare_answers_;  ///< memory to be used again
  std::vector<int> granted_;              ///< origins whose held records may be carried out
  bool granting_ = false;
  std::string broken_;   ///< why the lock cannot be had any more; empty: it can
  bool posted_ = false;  ///< an exposure epoch is open
  EpochGroup posted_group_;
  int completed_ = 0;  ///< of those origins
};

}  // namespace tern::rma
