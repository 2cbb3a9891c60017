#include "progress/driving.h"

namespace tern {

void Driving::release() {
  if (!releases()) return;
  if (enabled()) {
    TERN_ASSERT(!in_round());
    if (sleep.engine) sleep.engine->note_deadline();
    if (const Need needed = needs_helper(); !covered(needed)) successor_->take_over(false);
  }
  release_mutex();
}

// The application leaves: the helper must watch what is pending.
Need Driving::needs_helper() {
  if (!successor_) return Need::nothing;
  if (wake_source_.load(std::memory_order_relaxed) == WakeSource::paths) successor_->note_leave();
  return covered(Need::now) ? Need::now : successor_->need();
}

void Driving::go_outside_slow() {
  Need needed = needs_helper();
  say_outside();
  for (bool again = false; !covered(needed); again = true) [[unlikely]] {
      go_inside();
      needed = successor_->take_over(again);
      say_outside();
    }
}

}  // namespace tern
