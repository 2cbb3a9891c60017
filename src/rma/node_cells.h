// NodeCells: batches of short operations and their answers between ranks that share a node, but not the memory of the
// window (MPI_Win_create, MPI_Win_create_dynamic). Each pair of origin and target has a cell in the memory that the
// window's ranks share (SharedPart). Where two messages are two lines of memory that move and two more to be given
// back, a cell is one line that moves there and back, or a few.
//
//   origin   records   turn: odd  ────>  target   carries them out; answers   turn: even  ────>  origin reads them
//
// The origin asks for one batch at a time, and sends the target nothing else until it is answered, so everything stays
// in order. Answers that are too long for the cell go as messages, and the cell is answered empty.
//
// A rank that sleeps sets a word (Control::sleeps) and then looks at its cells once more; the rank that writes a cell
// reads the word afterwards. So at least one of the two sees what the other has written.
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fabric/pollable.h"
#include "rma/shared_part.h"

namespace tern::rma {

class NodeCells final : public Pollable {
 public:
  /// A target looks at a line of each other member in each poll, and the cells of all pairs are memory.
  static constexpr size_t kMaxMembers = 16;

  /// Carries out what a rank of the window asks for; writes at most `room` bytes of answers; returns how many.
  using Serve =
      std::function<size_t(int rank, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room)>;
  /// A rank of the window has answered. The cell can be used again.
  using Answered = std::function<void(int rank, std::span<const std::byte> answers)>;

  /// `me`: this rank's place. `wake`: sends a message to a rank of the window, that it looks again.
  NodeCells(SharedPart& memory, int me, std::function<void(int rank)> wake, Serve serve, Answered answered)
      : memory_(memory),
        me_(me),
        mine_(&memory.cell(me, 0), memory.ranks().size()),
        wake_(std::move(wake)),
        serve_(std::move(serve)),
        answered_(std::move(answered)) {}

  /// Where the records for the member at `place` are written, which has answered everything before:
  /// NodeCell::kRoomBytes.
  std::byte* room(int place) { return memory_.cell(place, me_).data; }
  /// The first `bytes` there are the records.
  void ask(int place, size_t bytes, uint32_t confirm);
  /// Some member has not answered yet.
  bool asks() const { return !asked_.empty(); }
  /// No answer of the member is waited for any more.
  void forget(int place) { std::erase(asked_, place); }

  int poll() override;
  const PollHints& hints() const override { return hints_; }
  bool arm() override;
  void disarm() override;

 private:
  void publish(NodeCell& cell, uint32_t turn, int reader);
  bool is_answered(int place) const;
  bool somebody_asks() const;
  int take_answers();
  int serve();

  SharedPart& memory_;
  const int me_;
  const std::span<NodeCell> mine_;  ///< by the origin's place
  const std::function<void(int rank)> wake_;
  const Serve serve_;
  const Answered answered_;
  std::vector<int> asked_;  ///< places of the members that have not answered
  bool polling_ = false;    ///< what is called from a poll may poll
  bool armed_ = false;
  const PollHints hints_;
};

}  // namespace tern::rma
