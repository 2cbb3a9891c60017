// Batches and answers that go through cells in memory of the node (node_cells.h) instead of as messages.
#include <cstring>

#include "rma/window.h"

namespace tern::rma {

namespace {
// Longer batches are quicker as messages, whose lines the target fetches in advance (a put of 512 bytes: 0.72 us, in a
// cell 0.80; of 64 bytes 0.54 and 0.48).
constexpr size_t kMaxAsked_bytes = 320;
static_assert(kMaxAsked_bytes <= NodeCell::kRoom_bytes);
}  // namespace

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

// A batch may be over before its cell is answered: a long result and the confirmation come as messages.
bool Window::cell_takes(const Target& target, size_t bytes) const {
  return cells_ && target.epoch_place >= 0 && !target.in_cell && !target.unasked && bytes <= kMaxAsked_bytes;
}

// It would overtake messages that are not confirmed yet.
bool Window::goes_by_cell(const Target& target) const {
  return target.confirm != 0 && target.confirmed + 1 == target.confirm && cell_takes(target, target.open.size());
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
