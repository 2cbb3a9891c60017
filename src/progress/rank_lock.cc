#include "progress/rank_lock.h"

#include "progress/event_handler.h"
#include "progress/idle.h"

namespace tern {

void RankLock::release() {
  if (depth_ != 1) {
    --depth_;
    return;
  }
  if (shared_) {
    if (sleeper_) sleeper_->note_deadline();
    if (const Need needed = needs_handler(); !covered(needed)) handler_->take_over(false);
    count_turn();
  }
  unlock();
}

// The application leaves: the handler must watch what is pending.
Need RankLock::needs_handler() {
  if (!handler_) return Need::nothing;
  if (watch_.load(std::memory_order_relaxed) == Watch::paths) handler_->note_leave();
  return covered(Need::now) ? Need::now : handler_->need();
}

void RankLock::go_outside_slow() {
  Need needed = needs_handler();
  say_outside();
  for (bool again = false; !covered(needed); again = true) [[unlikely]] {
      go_inside();
      needed = handler_->take_over(again);
      say_outside();
    }
}

}  // namespace tern
