// Window: what MPI_Win stands for (MPI 5.0, chapter 12), one rank's part of it.
//
//   window_create.cc  making and ending; info; attached memory
//   operations.cc     put, get, accumulate ...: checks, and turning them into records for the target
//   origin.cc         the way of those records, and of what comes back
//   service.cc        the target: carries records out, answers
//   direct.cc         operations on memory that this rank can reach itself
//   short.cc          the commonest of them in one piece
//   transfer.cc       puts and gets by the path's RemoteMemory (an adapter, cross-memory attach)
//   word_operations.cc  accumulates of 8-byte integers by its atomics
//   cells.cc          batches through memory that ranks of this node share
//   synchronise.cc    fence, post, start, complete, wait, lock, unlock, flush
//
// How an operation goes where no memory is shared with the target:
//
//   origin                                       target
//     put, get, ... : records in a batch
//     flush, unlock, full ... : batch ---------> carries the records out, one after the other
//       long data follow      : data  ---------> straight into the window
//                             <--- result, answers    results, and the confirmation if one was asked for
//
// All of one origin and one target stays in order, so one confirmation stands for everything before it, and accumulates
// are ordered. One target carries out records of all origins one after the other, so they are atomic.
//
// What an epoch does not allow yet (the lock is not there, the target has not posted) stays with the origin; a batch
// that is all of the epoch so far may travel with the request for the lock, and waits at the target.
// Units: bytes. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hints.h"
#include "rma/environment.h"
#include "rma/hints.h"
#include "rma/lock_design.h"
#include "rma/lock_queue.h"
#include "rma/node_cells.h"
#include "rma/node_epochs.h"
#include "rma/own_turns.h"
#include "rma/remote_part.h"
#include "rma/shared_part.h"
#include "rma/target.h"
#include "wire/window.h"

namespace tern::rma {

/// By the ABI's numbers.
enum class Flavor : int { create = 311, allocate = 312, dynamic = 313, shared = 314 };
namespace assertion {
inline constexpr int kNoCheck = 1024, kNoPrecede = 2048, kNoPut = 4096, kNoStore = 8192, kNoSucceed = 16384;
}
inline constexpr int kLockExclusive = 301, kLockShared = 302;

/// One call of MPI_Put and its kin.
struct Operation {
  wire::WindowAction action;
  OpId op = OpId::replace;  ///< of accumulates
  const void* origin = nullptr;
  Count origin_count = 0;
  Datatype* origin_type = nullptr;
  const void* compare = nullptr;
  void* result = nullptr;  ///< also where MPI_Get puts its data
  Count result_count = 0;
  Datatype* result_type = nullptr;
  int target = 0;
  Aint displacement = 0;
  Count target_count = 0;
  Datatype* target_type = nullptr;
};

/// Data of an operation, or its result, that are not longer lie in its record. Longer ones are messages of their own,
/// between the user's memory and the window, without a copy.
inline constexpr size_t kMaxInside_bytes = 4096;

/// Of their packed form; 0 for a null type.
size_t bytes_of(Count count, const Datatype* type);

/// The bytes that `count` elements of a datatype touch, from the address given. False: the numbers are too large.
bool touched(const Datatype& type, Count count, int64_t& low, int64_t& high);

/// Combines the next `bytes` of `from`, elements of the basic type, with what is at `to`. Predefined arithmetic
/// operators.
void combine(const Op& op, Cursor from, Cursor to, size_t bytes, const Kind& kind);

/// The members' values of one quantity: one number when they are all the same.
class PerRank {
 public:
  void set(std::vector<int64_t> values);
  int64_t of(int rank) const { return values_.empty() ? common_ : values_[size_t(rank)]; }
  bool same() const { return values_.empty(); }

 private:
  int64_t common_ = 0;
  std::vector<int64_t> values_;
};

class Answers;
struct ResultSend;

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
  Error may_be_freed() const { return not_idle("freed"); }
  /// Collective; only if it may be freed. Afterwards only destruction.
  Error free();
  /// Without `free` (an error in `create`, or this rank has lost others): drops what has not begun, and waits for what
  /// paths and adapters are doing for this rank. Others send it nothing any more.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // --- Local.
  uint64_t id() const { return comm_->context(); }
  Communicator& comm() const { return *comm_; }
  Flavor flavor() const { return flavor_; }
  std::byte* base() const { return base_; }
  Aint size() const { return size_; }
  Aint disp_unit() const { return disp_unit_; }
  Aint disp_unit_of(int rank) const { return disp_units_.of(rank); }
  Error attach(void* base, Aint size);
  Error detach(const void* base);
  void set_info(const Info& info) { hints_.take(info, false); }
  void tell_info(Info& info) const;
  /// MPI_Win_shared_query; `rank` may be kProcNull.
  Error shared_query(int rank, Aint& size, Aint& disp_unit, void*& base) const;
  const Hints& hints() const { return hints_; }
  /// Whether all ranks gave the same size, displacement unit.
  bool same_size() const { return sizes_.same(); }
  bool same_disp_unit() const { return disp_units_.same(); }
  /// What this rank waits for in this window; lines.
  std::string report() const;
  /// Operations of others need this rank's processor.
  bool serves() const { return !shares_all_ || !design_; }
  /// A thread of each rank polls all the time, so that locks are served at once (Jiang et al. 2004, section 4.1).
  bool wants_polls() const {
    return lock_choice_ == LockChoice::polling_thread && comm_->size() > 1 && environment_.may_poll();
  }
  std::string name;  ///< for errors and reports

  // --- Operations. `request`: null, or where the request of a request form goes.
  Error begin(const Operation& operation, Request** request);

  // --- Synchronisation.
  Error fence(int assertions);
  Error post(Group& group, int assertions);
  Error start(Group& group, int assertions);
  Error complete();
  Error wait();
  Error test(bool& flag);
  Error lock(int type, int rank, int assertions);
  Error unlock(int rank);
  Error lock_all(int assertions);
  Error unlock_all();
  Error flush(int rank);
  Error flush_all();
  Error flush_local(int rank);
  Error flush_local_all();
  Error sync();

  // --- What comes (Environment). `from` is a rank of the window.
  /// `confirm`: the number of the confirmation that is asked for behind the records; 0: none.
  /// `room`: where the answers go if they fit, else they go as messages. Returns how many bytes of them are there.
  size_t serve(int from, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room = {});
  void take_answers(int from, std::span<const std::byte> records) { take_answers(target(from), records); }
  void take_post(int from);
  /// Something that this rank waits for in shared memory may have changed.
  void take_nudge();
  /// Where the data of an operation or a result go; false: it is expected by nobody.
  bool land(const wire::Header& header, size_t bytes, Landing& landing);
  void landed(const wire::Header& header, Landing& landing, size_t bytes, Error error);
  void lose(int rank, const Error& error);

 private:
  friend class Answers;
  friend struct ResultSend;
  friend struct WordElement;
  /// A result that has not come.
  struct Awaited {
    Cursor into;
    Ref<Datatype> type;
    Target* target = nullptr;  ///< null: the place is free
    WindowRequest* request = nullptr;
    size_t bytes = 0;
    uint32_t next_free = 0;
  };
  /// A look costs about as much as a put into shared memory, so that of many puts it takes a few per cent; so many
  /// calls take about a microsecond.
  static constexpr uint32_t kLooks = 32;
  /// A rank that shares its core with others, four or so, comes again after some 10 us; one that must be woken on
  /// another core, after 40.
  static constexpr uint64_t kOwnPatience_ns = 100'000;
  static constexpr int kCloseLooks = 128;
  enum class Fence : uint8_t { none, possible, used };
  /// The ranks of the last group of MPI_Win_post or MPI_Win_start: programs pass the same one again and again.
  struct EpochGroup {
    Ref<Group> group;        ///< null: none yet
    std::vector<int> ranks;  ///< of the window, ascending
  };

  Window(Environment& environment, const Plan& plan);

  // window_create.cc
  Error check_plan();
  Error agree(Communicator& comm, Error mine);
  Error allocate_memory();
  Error share_memory(bool locks);
  void choose_design(bool shares_cores);
  Error share_lock_words();
  std::function<void(int rank)> nudge();
  bool locks_by_words() const;
  bool shares_node_with(int rank) const;
  void end_under_way();
  bool nothing_under_way() const;
  std::string describe() const;

  // operations.cc
  Error check(const Operation& operation) const;
  Error check_types(const Operation& operation) const;
  Error check_range(const Operation& operation) const;
  Error range_error(const Operation& operation, const std::string& what) const;
  Error allow(Target& target);
  Error not_in_epoch(int rank) const;
  // short.cc
  /// The target whose lock is held; null: find out.
  Target* held(int rank) const;
  /// The target whose memory this rank reaches, and to which the present epoch allows operations, as far as can be told
  /// quickly; null: find out.
  Target* reached_before(int rank) const;
  bool perform_short(const Operation& operation);
  bool record_short(const Operation& operation);
  /// `confirm`: the number of the confirmation that belongs to the answer. False: nothing has happened.
  bool serve_short(std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room, size_t& answered);
  bool lock_short(int type, int rank, int assertions);
  bool unlock_short(int rank);
  // direct.cc
  std::byte* reachable(int rank) const;
  AccumulateGuard alone_with(int rank) const;
  bool goes_directly(const Target& target) const;
  void perform_directly(const Operation& operation);

  // operations.cc, continued
  void send_out(const Operation& operation, Target& target, bool by_words, WindowRequest* request);
  void put_out(const Operation& operation, Target& target, WindowRequest* request);
  void put_piece(const Operation& operation, Target& target, wire::WindowOperationBody& body, uint16_t slot,
                 WindowRequest* request);
  uint16_t name_type(Target& target, Datatype& type);
  uint32_t await_result(const Operation& operation, Target& target, size_t offset, size_t bytes,
                        WindowRequest* request);
  /// The caller says where it goes.
  uint32_t await_result(Target& target, size_t bytes, WindowRequest* request);

  // transfer.cc
  void find_remote(Target& target);
  bool goes_by_memory(Target& target, const Operation& operation);
  void begin_transfer(const Operation& operation, Target& target, WindowRequest* request);
  void issue(RemoteTransfer& transfer);
  void transfer_over(RemoteTransfer& transfer, Error error);
  /// Afterwards what is left of them, if anything, are records.
  void wait_for_transfers(Target& target);

  // word_operations.cc
  bool goes_by_words(const Operation& operation) const;
  void begin_words(const Operation& operation, Target& target, WindowRequest* request);
  void issue(WordAccumulate& accumulate);
  void advance_words(Target& target);
  void begin_elements(WordAccumulate& accumulate);
  void begin_atomic(WordElement& element);
  bool tries_again(WordElement& element);
  void word_done(WordElement& element, Error error);
  void words_over(WordAccumulate& accumulate, Error error);

  // origin.cc
  Target& target(int rank);
  void take_answers(Target& about, std::span<const std::byte> records);
  wire::Header header(wire::Kind kind, uint32_t token = 0) const {
    return wire::make_header(kind, comm_->rank(), id(), 0, token);
  }
  void seal(Target& target, DataSend* data);
  bool gate_open(const Target& target) const;
  void await_post(Target& target);
  /// Sends what may leave; `everything`: the parcel that is being filled, too.
  void pump(Target& target, bool everything);
  bool may_leave(const Target& target) const;
  void send_open(Target& target);
  // cells.cc
  void make_cells();
  /// Whether a batch of so many bytes may be written into the target's cell, if all messages before it are confirmed.
  bool cell_takes(const Target& target, size_t bytes) const;
  bool goes_by_cell(const Target& target) const;
  void ask_by_cell(Target& target);
  /// The records lie in the cell.
  void ask_by_cell(Target& target, size_t bytes, uint32_t confirm);
  void take_cell(int from, std::span<const std::byte> answers);
  void forget_cell(Target& target);
  // origin.cc, continued
  void post_records(Target& target, const Parcel& parcel);
  void send(Target& target, Parcel parcel);
  void send_lock(Target& target);
  void ask_confirmation(Target& target);
  uint32_t begin_confirmation(Target& target);
  void result_over(uint32_t token, Error error);
  void drop_operations(Target& target);
  void drop_parcels(Target& target);
  Error why_dropped(const Target& target) const;

  // service.cc
  Source& source(int rank);
  void carry_out(Source& from, std::span<const std::byte> records, Answers& answers);
  void operate_briefly(Source& from, const wire::WindowRecord& head, wire::WindowReader& in, Answers& answers);
  void operate(Source& from, const wire::WindowRecord& head, const wire::WindowOperationBody& body,
               std::span<const std::byte> data, Answers& answers);
  void perform(const wire::WindowRecord& head, const wire::WindowOperationBody& body, std::span<const std::byte> data,
               Cursor cursor, const Datatype& type, Answers& answers);
  void accumulate(OpId id, std::span<const std::byte> data, Cursor cursor, const Kind* kind);
  const char* wrong_with(const wire::WindowRecord& head, const wire::WindowOperationBody& body,
                         const Datatype& type) const;
  Error locate(Source& from, const wire::WindowOperationBody& body, Cursor& cursor, const Datatype*& type);
  bool contains(int64_t low, int64_t high) const;
  void grant_ready();
  void end_access(Source& from);
  void result_left(Source& from);
  bool ask_lock(Source& from, LockMode mode, std::span<const std::byte> rest, Answers& answers);
  void refuse_lock(Source& from, Answers& answers);

  // synchronise.cc
  template <typename Done>
  void wait_until(Done&& done) {
    environment_.progress().wait_until(done);
  }
  /// The other rank writes a count in memory. Its answer takes some 0.1 us, if it comes at once: polls between two
  /// looks would delay its discovery. `closely`: nothing else is likely to be waited for.
  template <typename Done>
  void wait_for_count(Done&& done, bool closely) {
    if (closely && environment_.progress().idle().pauses != 0) {
      for (int i = 0; i < kCloseLooks; ++i, short_pause()) {
        if (done()) return;
      }
    }
    const NodeEpochs::Wait waiting(*epochs_);
    wait_until(done);
  }
  /// A call that has nothing to wait for looks after everything else now and then: it may be one of many in a loop.
  void look() {
    if (++looks_ % kLooks == 0) environment_.progress().look();
  }
  /// For answers of targets. Those in cells take some 0.2 us, if they come at once; meanwhile others may ask this rank.
  template <typename Done>
  void wait_for_answers(Done&& done) {
    if (cells_ && cells_->asks() && environment_.progress().idle().pauses != 0) {
      // Longer answers come as messages, before the cell is answered empty.
      for (int i = 0; i < kCloseLooks && cells_->asks(); ++i, short_pause()) {
        cells_->poll();
        if (done()) return;
      }
    }
    wait_until(done);
  }
  Error check_rank(int rank) const;
  Error sync_error(const std::string& text) const;
  bool own(int rank) const { return rank == comm_->rank(); }
  bool passive() const { return lock_all_ || locked_ != 0; }
  Error not_passive(int rank) const;
  Error not_idle(const char* what) const;
  Error take_error(Target& target);
  Error take_errors();
  Error check_assertions(int assertions, int allowed) const;
  Error members(Group& group, EpochGroup& members) const;
  Error may_lock() const;
  bool must_hold(const Target& target) const;
  Error acquire(Target& target);
  LockMode begin_lock(Target& target);
  void end_lock(Target& target);
  void let_others_come();
  void ask_design(Target& target);
  void wake_design();
  void lock_told(int rank, Error error);
  void conclude(Target& target);
  Error finish(Target& target);
  void finish_transfers();
  Error finish_all();
  Error finish_locally(Target& target);
  void begin_unlock(Target& target);
  Error end_unlock(Target& target);
  Error barrier();
  Error polling_barrier();
  Error end_exposure();
  bool exposure_over();
  int epoch_place(int rank) const { return epochs_ && !own(rank) ? part_.place_of(rank) : -1; }
  bool completes_in_memory(const Target& target) const;

  Environment& environment_;
  const Flavor flavor_;
  std::byte* base_;
  Aint size_;
  const Aint disp_unit_;
  Ref<Communicator> comm_;  ///< the window's own
  PerRank sizes_, disp_units_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> owned_;  ///< memory of this rank alone that MPI has allocated
  SharedPart part_;                                           ///< memory shared with ranks of this node; empty: none
  int part_place_ = -1;                                       ///< this rank's in it
  RemotePart remote_;                                         ///< what paths need to get and put
  bool shares_data_ = false, shares_all_ = false;             ///< that memory is the members' windows; all ranks'
  LockChoice lock_choice_ = LockChoice::automatic;
  std::unique_ptr<LockDesign> design_;    ///< null: by message
  std::unique_ptr<NodeEpochs> epochs_;    ///< null: no memory is shared
  std::unique_ptr<NodeCells> cells_;      ///< null: there are none
  std::map<uintptr_t, size_t> attached_;  ///< dynamic windows: address, size
  Hints hints_;

  // --- Origin.
  std::vector<std::unique_ptr<Target>> targets_;  ///< by rank; empty before the first use
  std::vector<Awaited> awaited_;
  uint32_t free_awaited_ = 0;  ///< index + 1
  uint32_t looks_ = 0;
  Fence fence_ = Fence::none;
  bool lock_all_ = false, lock_all_unchecked_ = false;
  int locked_ = 0;        ///< targets locked by MPI_Win_lock
  bool started_ = false;  ///< an access epoch of MPI_Win_start is open
  EpochGroup started_group_;
  bool started_unchecked_ = false;
  uint64_t epoch_ = 1;  ///< how many access epochs of MPI_Win_fence and MPI_Win_start have begun or ended

  // --- Target.
  std::vector<std::unique_ptr<Source>> sources_;
  LockQueue locks_;
  OwnTurns own_turns_;
  std::vector<std::byte> spare_answers_;  ///< memory to be used again
  std::vector<int> granted_;              ///< origins whose held records may be carried out
  bool granting_ = false;
  std::string broken_;   ///< why the lock cannot be had any more; empty: it can
  bool posted_ = false;  ///< an exposure epoch is open
  EpochGroup posted_group_;
  int completed_ = 0;  ///< of those origins
  bool freed_ = false;
};

}  // namespace tern::rma
