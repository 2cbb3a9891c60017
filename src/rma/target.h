// What a rank keeps about one target of a window as its origin. Made when first used: a window costs a pointer for each
// rank never spoken to. Thread rule: under the rank's lock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "p2p/core/endpoint.h"
#include "p2p/request.h"
#include "progress/engine.h"
#include "rma/routes/route.h"
#include "wire/window.h"

namespace tern::rma {

struct InFlight;
struct WordAccumulate;
struct Target;

/// The request of MPI_Rput and its kin: complete when all parts of the operation are over at the origin.
class WindowRequest final : public Request {
 public:
  WindowRequest() : Request(Kind::window) {}
  void begin_part() { ++parts_; }
  void end_part() {
    TERN_ASSERT(parts_ > 0);
    if (--parts_ == 0) set_complete();
  }
  /// The first error counts.
  void fail(Error why) {
    if (!error) error = std::move(why);
  }

 protected:
  void destroy() override { delete this; }

 private:
  int parts_ = 1;  ///< the call that begins it is one, so that it cannot be over before all parts are begun
};

/// An operation that does not go as records: where the epoch does not allow it yet it waits between them.
class HeldOperation {
 public:
  /// It may leave now.
  virtual void leave() = 0;
  /// It never may; the object ends.
  virtual void drop(Error why) = 0;

 protected:
  ~HeldOperation() = default;
};

/// Data that follow a parcel as a message of their own, read from the user's memory until they have left: a path may
/// hold them for a while after the target has confirmed them.
struct DataSend final : SendOperation, ListHook<InFlight> {
  Target* target = nullptr;
  uint32_t number = 0;  ///< InFlight::begin_send
  ProgressEngine* progress = nullptr;
  Ref<Datatype> type;
  WindowRequest* request = nullptr;

  /// The object ends.
  void over(Error error);
};

/// What leaves together: records as one message, and the data of the last of them; or an operation without records.
struct Parcel {
  std::vector<std::byte> records;
  uint32_t confirm = 0;  ///< number of the confirmation that is asked for behind them; 0: none
  DataSend* data = nullptr;
  HeldOperation* held = nullptr;  ///< instead of all three
};

/// Records on their way to the target, in order.
struct Outbox {
  std::vector<std::byte> open;  ///< of the parcel that is being filled
  uint32_t confirm = 0;         ///< as in a parcel
  std::deque<Parcel> sealed;    ///< parcels that may not leave yet
  std::vector<Ref<Datatype>> types;
  uint16_t next_slot = 0;  ///< which of them is replaced next
  bool pumping = false;

  bool fills_parcel() const { return !open.empty() || confirm != 0; }
  bool has_records() const { return fills_parcel() || !sealed.empty(); }
  /// The records gathered so far become a parcel; `data` belong to the last of them.
  void seal(DataSend* data = nullptr);
  /// Behind everything before it.
  void hold(HeldOperation& operation);
};

/// What was begun and is not over.
struct InFlight {
  uint32_t pending = 0;    ///< data that have not left, results that have not come
  uint32_t transfers = 0;  ///< by RemoteMemory, its atomics included: not begun, or not done
  uint32_t asked = 0;      ///< confirmations asked for,
  uint32_t confirmed = 0;
  uint32_t begun = 0;                       ///< operations since the last call that waited for their end
  bool unconfirmed = false;                 ///< operations were begun since the last of the confirmations
  bool alone = false;                       ///< only one was begun before that call: the next one leaves at once
  bool in_cell = false;                     ///< a batch in its cell (node_cells.h) is not answered: nothing else leaves
  bool unasked = false;                     ///< the last message asked for no confirmation
  IntrusiveList<DataSend, InFlight> sends;  ///< of `pending`: data that have not left, oldest first
  uint32_t sends_begun = 0;

  /// What a flush waits for: everything begun so far. What other threads begin later is theirs.
  struct Mark {
    uint32_t confirmation = 0, sends = 0;
  };
  Mark mark() const { return {asked, sends_begun}; }
  bool has_passed(const Mark& mark) {
    const DataSend* oldest = sends.front();
    return int32_t(confirmed - mark.confirmation) >= 0 && (!oldest || int32_t(oldest->number - mark.sends) > 0);
  }
  void begin_send(DataSend& data) {
    ++pending;
    data.number = ++sends_begun;
    sends.push_back(&data);
  }
  void end_pending() {
    TERN_ASSERT(pending != 0);
    --pending;
  }
  void end_transfer() {
    TERN_ASSERT(transfers != 0);
    --transfers;
  }
  /// The number of the next confirmation, which stands for everything before it. Never 0.
  uint32_t ask() {
    unconfirmed = false;
    if (++asked == 0) ++asked;
    return asked;
  }
  bool is_over() const { return pending == 0 && transfers == 0; }
  bool is_confirmed() const { return confirmed == asked; }
};

/// The target's lock, as its origin sees it.
enum class LockState : uint8_t {
  none,
  wanted,  ///< MPI_Win_lock was called; the target has not heard of it
  asked,
  held,
  refused  ///< it cannot be had (`TargetLock::refusal`); operations are dropped
};

struct TargetLock {
  LockState state = LockState::none;
  bool exclusive = false;
  bool counts = false;     ///< for Environment::add_lock
  bool unchecked = false;  ///< MPI_MODE_NOCHECK: nobody else wants the lock, so it is not taken
  Error refusal;
};

/// Epochs of MPI_Win_post and MPI_Win_start with the target, and those of MPI_Win_fence.
struct TargetEpoch {
  uint32_t posts = 0;           ///< exposure epochs that it has opened to me by message and that I have not used
  int place = -1;               ///< its place in NodeEpochs; negative: its epochs come and go by message
  bool awaited = false;         ///< a thread waits for its MPI_Win_post
  bool completes_here = false;  ///< MPI_Win_complete: by a count in memory, not by message
  uint64_t opened = 0;  ///< the access epoch (OriginEpoch::number) that allows operations, known from one before
};

/// Its memory where this rank reaches it by loads and stores.
struct TargetMemory {
  std::byte* start = nullptr;  ///< null: it does not
  int64_t size = 0, disp_unit = 1;
  int place = -1;  ///< on the node, of the word that accumulates exclude each other by; negative: nobody else
};

/// Its memory by RemoteMemory.
struct TargetKeys {
  bool known = false;  ///< the rest is valid
  bool can_get = false, can_put = false;
  RemoteKey key;  ///< empty: it cannot be reached
  uint64_t address = 0;
};

/// Accumulates by atomics that may be on their way, in order.
struct WordQueue {
  std::deque<WordAccumulate*> calls;
  bool advancing = false, again = false;
};

struct Target {
  Target(int of, Endpoint& way) : rank(of), endpoint(way) {}

  const int rank;
  Endpoint& endpoint;
  TargetMemory memory;
  TargetLock lock;
  TargetEpoch epoch;
  InFlight flight;
  Outbox out;
  TargetKeys keys;
  WordQueue words;
  Routes routes;  ///< that can lead there
  bool lost = false;
  Error error;  ///< of operations of this epoch; told by the synchronisation that ends it

  /// Nothing is on its way, and nothing is to be told.
  bool is_settled() const {
    return !flight.unconfirmed && flight.is_over() && flight.is_confirmed() && !lost && !error && !out.has_records();
  }
  bool quiet() const { return lost || (flight.is_over() && !out.has_records()); }
  bool has_passed(const InFlight::Mark& mark) { return lost || flight.has_passed(mark); }
  bool is_dropped() const { return lost || lock.state == LockState::refused; }
  /// The first one is told.
  void fail(const Error& why) {
    if (!error) error = Error(why.error_class(), std::string(why.text()));
  }
};

/// By rank; empty before the first use.
using TargetTable = std::vector<std::unique_ptr<Target>>;

}  // namespace tern::rma
