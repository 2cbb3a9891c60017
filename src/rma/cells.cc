// Batches and answers that go through cells in memory of the node (node_cells.h) instead of as messages.
#include <cstring>

#include "rma/window.h"

namespace tern::rma {

void Window::make_cells() {
  cells_ = std::make_unique<NodeCells>(
      part_, part_place_, nudge(),
      [this](int rank, std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room) {
        return serve(rank, records, confirm, room);
      },
      [this](int rank, std::span<const std::byte> answers) { take_cell(rank, answers); });
  environment_.turns().add(*cells_);
  environment_.turns().wake();
}

bool Window::goes_by_cell(const Target& target) const {
  return cells_ && target.epoch_place >= 0 && target.confirm != 0 && !target.unasked &&
         target.confirmed + 1 == target.confirm && target.open.size() <= kMaxAsked_bytes;
}

void Window::ask_by_cell(Target& target) {
  std::memcpy(cells_->room(target.epoch_place), target.open.data(), target.open.size());
  ask_by_cell(target, target.open.size(), target.confirm);
  target.open.clear();
  target.confirm = 0;
}

void Window::ask_by_cell(Target& target, size_t bytes, uint32_t confirm) {
  ++environment_.counters().rma_messages;
  target.in_cell = true;
  cells_->ask(target.epoch_place, bytes, confirm);
}

// What was begun meanwhile leaves now.
void Window::take_cell(int from, std::span<const std::byte> answers) {
  Target& about = *targets_[size_t(from)];  // it was asked
  about.in_cell = false;
  take_answers(about, answers);
  if (about.has_records()) pump(about, true);
}

void Window::forget_cell(Target& target) {
  if (!target.in_cell) return;
  target.in_cell = false;
  cells_->forget(target.epoch_place);
}

}  // namespace tern::rma
