#include "rma/routes/cell.h"

#include <cstring>

#include "base/assert.h"

namespace tern::rma {

void CellRoute::make(SharedPart& part, int me, NodeCells::Serve serve, Answered answered) {
  TERN_ASSERT(!cells_);
  cells_ = std::make_unique<NodeCells>(
      part, me, [this](int rank) { context_.nudge(rank); }, std::move(serve), std::move(answered));
  context_.environment.word_poller().add(*cells_);
  context_.environment.word_poller().wake();
}

void CellRoute::end() {
  if (!cells_) return;
  context_.environment.word_poller().remove(*cells_);
  cells_.reset();
}

void CellRoute::ask_open(Target& target) {
  Outbox& out = target.out;
  TERN_DEBUG_ASSERT(takes_open(target));
  std::memcpy(room(target), out.open.data(), out.open.size());
  begin(target, out.open.size(), out.confirm);
  out.open.clear();
  out.confirm = 0;
}

// A batch may be over before its cell is answered: a long result and the confirmation come as messages.
void CellRoute::begin(Target& target, size_t bytes, uint32_t confirm) {
  TERN_ASSERT(!target.flight.in_cell && confirm != 0);
  ++context_.counters().rma_messages;
  TERN_DEBUG_ASSERT(bytes <= kMaxAskedBytes && target.epoch.place >= 0);
  target.flight.in_cell = true;
  cells_->ask(target.epoch.place, bytes, confirm);
}

void CellRoute::forget(Target& target) {
  if (!target.flight.in_cell) return;
  target.flight.in_cell = false;
  cells_->forget(target.epoch.place);
}

}  // namespace tern::rma
