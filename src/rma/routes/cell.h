// The route of cells (node_cells.h): batches and their answers through memory of the node. One line of memory moves
// there and back, where a message and its answer are two each.
//
// takes: a batch that fits, with a confirmation asked for, of a target on the node to which nothing is on its way that
// is not confirmed: it would overtake messages. finish: the answer comes when the target has polled. Units: bytes.
// Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "rma/context.h"
#include "rma/node_cells.h"
#include "rma/target.h"

namespace tern::rma {

class CellRoute {
 public:
  /// A target has answered.
  using Answered = std::function<void(int rank, std::span<const std::byte> answers)>;
  explicit CellRoute(WindowContext& context) : context_(context) {}

  /// All ranks of the window share a node. `me`: this rank's place.
  void make(SharedPart& part, int me, NodeCells::Serve serve, Answered answered);
  /// Nobody asks or answers any more.
  void end();
  NodeCells* cells() const { return cells_.get(); }

  /// Whether a batch of that many bytes may be written into the target's cell, if all messages before it are confirmed.
  bool takes(const Target& target, size_t bytes) const {
    return cells_ && target.routes.has(Route::cell) && !target.flight.in_cell && !target.flight.unasked &&
           bytes <= kMaxAskedBytes;
  }
  /// The batch that is being filled.
  bool takes_open(const Target& target) const {
    return target.out.confirm != 0 && target.flight.confirmed + 1 == target.out.confirm &&
           takes(target, target.out.open.size());
  }
  /// Where records for the target are written, before `begin`.
  std::byte* room(const Target& target) { return cells_->room(target.epoch.place); }
  /// Bytes of records in the room.
  void begin(Target& target, size_t bytes, uint32_t confirm);
  void ask_open(Target& target);
  /// No answer is waited for any more.
  void forget(Target& target);

 private:
  // Longer batches are quicker as messages, whose lines the target fetches in advance (a put of 512 bytes: 0.72 us, in
  // a cell 0.80; of 64 bytes 0.54 and 0.48).
  static constexpr size_t kMaxAskedBytes = 320;
  static_assert(kMaxAskedBytes <= NodeCell::kRoomBytes);

  WindowContext& context_;
  std::unique_ptr<NodeCells> cells_;  ///< null: there are none
};

}  // namespace tern::rma
