// What a rank keeps about one target of a window, as origin (Target), and about one origin, as target (Source). Both
// are made when first used: a window costs a pointer for each rank never spoken to.
// Thread rule: under the rank's lock.
#pragma once

#include <deque>
#include <vector>

#include "p2p/endpoint.h"
#include "p2p/request.h"
#include "rma/own_turns.h"
#include "wire/window.h"

namespace tern::rma {

class Window;
struct RemoteTransfer;
struct WordElement;
struct WordAccumulate;

/// The request of MPI_Rput and its kin: complete when all parts of the operation are over at the origin.
class WindowRequest final : public Request {
 public:
  WindowRequest() : Request(Kind::window) {}
  void begin_part() { ++parts_; }
  void end_part() {
    if (--parts_ == 0) set_complete();
  }

 protected:
  void destroy() override { delete this; }

 private:
  int parts_ = 1;  ///< the call that begins it is one, so that it cannot be over before all parts are begun
};

struct Target;

/// Data that follow a parcel as a message of their own, read from the user's memory until they have left.
struct DataSend final : SendOperation {
  Target* target = nullptr;
  Window* window = nullptr;
  Ref<Datatype> type;
  WindowRequest* request = nullptr;
};

/// What leaves together: records as one message, and the data of the last of them; or a transfer; or an accumulate.
struct Parcel {
  std::vector<std::byte> records;
  uint32_t confirm = 0;  ///< number of the confirmation that is asked for behind them; 0: none
  DataSend* data = nullptr;
  RemoteTransfer* transfer = nullptr;  ///< instead of both
  WordAccumulate* words = nullptr;     ///< likewise
};

/// The target's lock, as its origin sees it.
enum class LockState : uint8_t {
  none,
  wanted,  ///< MPI_Win_lock was called; the target has not heard of it
  asked,
  held,
  refused  ///< it cannot be had (`Target::refusal`); operations are dropped
};

struct Target {
  Target(int of, Endpoint& way) : rank(of), endpoint(way) {}

  const int rank;
  Endpoint& endpoint;
  std::vector<std::byte> open;  ///< records of the parcel that is being filled
  uint32_t confirm = 0;         ///< as in a parcel
  std::deque<Parcel> sealed;    ///< parcels that may not leave yet, in order
  std::vector<Ref<Datatype>> types;
  uint16_t next_slot = 0;  ///< which of them is replaced next

  LockState lock = LockState::none;
  bool exclusive = false;
  bool lock_counts = false;  ///< for Environment::add_lock
  bool unchecked = false;    ///< MPI_MODE_NOCHECK: nobody else wants the lock, so it is not taken
  bool pumping = false;
  bool in_cell = false;    ///< a batch in its cell (node_cells.h) is not answered: nothing else leaves
  bool unasked = false;    ///< the last message asked for no confirmation
  uint32_t pending = 0;    ///< data that have not left, results that have not come
  uint32_t transfers = 0;  ///< by RemoteMemory, its atomics included: not begun, or not done
  uint32_t asked = 0;      ///< confirmations asked for,
  uint32_t confirmed = 0;
  bool unconfirmed = false;     ///< operations were begun since the last of them
  uint32_t begun = 0;           ///< operations since the last call that waited for their end
  bool alone = false;           ///< only one was begun before that call: the next one leaves at once
  uint32_t posts = 0;           ///< exposure epochs that it has opened to me by message and that I have not used
  int epoch_place = -1;         ///< its place in NodeEpochs; negative: its epochs come and go by message
  bool awaited = false;         ///< a thread waits for its MPI_Win_post
  bool completes_here = false;  ///< MPI_Win_complete: by a count in memory, not by message
  uint64_t opened = 0;          ///< the access epoch (Window::epoch_) that allows operations, known from one before
  bool lost = false;
  // Its memory where this rank reaches it by loads and stores; null: it does not.
  std::byte* memory = nullptr;
  int64_t size = 0, disp_unit = 1;
  int place = -1;  ///< on the node, of the word that accumulates exclude each other by; negative: nobody else
  // Its memory, by RemoteMemory. Valid when `remote_known`; an empty key: it cannot be reached.
  bool remote_known = false, can_get = false, can_put = false;
  RemoteKey remote_key;
  uint64_t remote_address = 0;
  std::deque<WordAccumulate*> words;  ///< accumulates by atomics that may be on their way, in order
  bool advancing = false, advance_again = false;
  Error refusal;
  Error error;  ///< of operations of this epoch; told by the synchronisation that ends it

  bool fills_parcel() const { return !open.empty() || confirm != 0; }
  bool has_records() const { return fills_parcel() || !sealed.empty(); }
  /// Nothing is on its way, and nothing is to be told.
  bool is_settled() const {
    return !unconfirmed && pending == 0 && transfers == 0 && confirmed == asked && !lost && !error && !has_records();
  }
  bool quiet() const { return lost || (pending == 0 && transfers == 0 && !has_records()); }
  bool has_confirmed(uint32_t number) const { return lost || int32_t(confirmed - number) >= 0; }
};

struct Source {
  Source(int of, Endpoint& way) : rank(of), endpoint(way) {}

  const int rank;
  Endpoint& endpoint;
  std::vector<Ref<Datatype>> types;         ///< by slot
  std::vector<std::byte> held;              ///< records that wait for the lock
  bool waits = false;                       ///< for the lock
  uint32_t replying = 0;                    ///< results that are still to be read from the window
  bool unlocks = false, completes = false;  ///< once those results have left
  bool refused = false;                     ///< it cannot have the lock: nothing is done for it until it unlocks
  /// The operation whose data come as the next message; `nothing_of_it`: they are thrown away.
  enum class Expected : uint8_t { nothing, operation, nothing_of_it };
  Expected expected = Expected::nothing;
  wire::WindowRecord head{};
  wire::WindowOperationBody body{};
  std::vector<std::byte> arriving;  ///< those data, unless they go straight to the window
  OwnTurns::Origin returns;         ///< for the lock
};

}  // namespace tern::rma
