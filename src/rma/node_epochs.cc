#include "rma/node_epochs.h"
#include "base/assert.h"

#include <algorithm>

namespace tern::rma {

// Only this rank writes the count.
void NodeEpochs::tell(std::atomic<uint32_t>& count, int place) {
  TERN_DEBUG_ASSERT(place != me_);
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (memory_.takes_sleeper(place)) wake_(memory_.ranks()[size_t(place)]);
}

void NodeEpochs::post(int place, bool told) {
  TERN_DEBUG_ASSERT(place >= 0 && place != me_ &&
                    std::find(expected_.begin(), expected_.end(), place) == expected_.end());
  expected_.push_back(place);
  if (told) tell(memory_.posts(place)[me_], place);
}

int NodeEpochs::take_completions() {
  return int(std::erase_if(expected_, [&](int place) {
    const bool completed = memory_.completions(me_)[place].load(std::memory_order_acquire) != seen_[size_t(place)];
    if (completed) ++seen_[size_t(place)];
    return completed;
  }));
}

void NodeEpochs::complete(int place) { tell(memory_.completions(place)[me_], place); }

bool NodeEpochs::arm() {
  if (waits_ == 0) return true;
  armed_ = true;
  memory_.control(me_).sleeps.store(1, std::memory_order_seq_cst);
  return true;
}

void NodeEpochs::disarm() {
  if (!armed_) return;
  armed_ = false;
  memory_.control(me_).sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace tern::rma
