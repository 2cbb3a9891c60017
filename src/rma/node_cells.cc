#include "rma/node_cells.h"
#include "base/assert.h"

#include <algorithm>
#include <cstring>

namespace tern::rma {

namespace {
// A rank has no cell to itself.
bool is_asked(const NodeCell& cell) { return cell.turn.load(std::memory_order_acquire) % 2 != 0; }
}  // namespace

void NodeCells::publish(NodeCell& cell, uint32_t turn, int reader) {
  TERN_DEBUG_ASSERT(reader >= 0 && reader != me_);
  cell.turn.store(turn, std::memory_order_seq_cst);
  if (memory_.takes_sleeper(reader)) wake_(memory_.ranks()[size_t(reader)]);
}

bool NodeCells::is_answered(int place) const {
  return memory_.cell(place, me_).turn.load(std::memory_order_acquire) % 2 == 0;
}

bool NodeCells::somebody_asks() const {
  return std::any_of(mine_.begin(), mine_.end(), [](const NodeCell& cell) { return is_asked(cell); });
}

void NodeCells::ask(int place, size_t bytes, uint32_t confirm) {
  NodeCell& cell = memory_.cell(place, me_);
  TERN_DEBUG_ASSERT(bytes <= NodeCell::kRoomBytes && confirm != 0 && is_answered(place));
  TERN_DEBUG_ASSERT(std::find(asked_.begin(), asked_.end(), place) == asked_.end());
  cell.confirm = confirm;
  cell.bytes = uint32_t(bytes);
  asked_.push_back(place);
  publish(cell, cell.turn.load(std::memory_order_relaxed) + 1, place);
}

int NodeCells::take_answers() {
  int done = 0;
  for (size_t i = 0; i < asked_.size();) {
    const int place = asked_[i];
    if (!is_answered(place)) {
      ++i;
      continue;
    }
    asked_[i] = asked_.back();
    asked_.pop_back();
    ++done;
    const NodeCell& cell = memory_.cell(place, me_);
    alignas(8) std::byte answers[NodeCell::kRoomBytes];  // the next batch may leave while they are taken apart
    const size_t bytes = std::min<size_t>(cell.bytes, sizeof answers);
    if (bytes <= NodeCell::kFirstLineBytes) std::memcpy(answers, cell.data, NodeCell::kFirstLineBytes);
    else std::memcpy(answers, cell.data, bytes);
    answered_(memory_.ranks()[size_t(place)], {answers, bytes});
    i = 0;
  }
  return done;
}

int NodeCells::serve() {
  int done = 0;
  for (NodeCell& cell : mine_) {
    if (!is_asked(cell)) continue;
    const int place = int(&cell - mine_.data());
    const size_t bytes = std::min<size_t>(cell.bytes, sizeof cell.data);
    TERN_DEBUG_ASSERT(place != me_);
    cell.bytes = uint32_t(serve_(memory_.ranks()[size_t(place)], {cell.data, bytes}, cell.confirm, cell.data));
    TERN_DEBUG_ASSERT(cell.bytes <= sizeof cell.data && is_asked(cell));
    publish(cell, cell.turn.load(std::memory_order_relaxed) + 1, place);
    ++done;
  }
  return done;
}

int NodeCells::poll() {
  if (polling_) return 0;
  polling_ = true;
  int done = asked_.empty() ? 0 : take_answers();
  done += serve();
  polling_ = false;
  return done;
}

bool NodeCells::arm() {
  armed_ = true;
  memory_.control(me_).sleeps.store(1, std::memory_order_seq_cst);
  const bool waits =
      !somebody_asks() && std::none_of(asked_.begin(), asked_.end(), [this](int place) { return is_answered(place); });
  if (!waits) disarm();
  return waits;
}

void NodeCells::disarm() {
  if (!armed_) return;
  armed_ = false;
  memory_.control(me_).sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace tern::rma
