#include "fabric/later_sink.h"

#include <algorithm>

namespace tern {

bool LaterSink::keeps_of(const Lane& lane) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.from == &lane; });
}

int LaterSink::deliver() {
  TERN_DEBUG_ASSERT(!short_);
  int handled = 0;
  std::list<Kept> landing;
  while (!kept_.empty()) {
    std::list<Kept> next;
    next.splice(next.begin(), kept_, kept_.begin());
    const Kept& kept = next.front();
    if (!kept.whole) {
      landing.splice(landing.end(), next);
      continue;
    }
    ++handled;
    sink_->on_message(*kept.from, kept.header, kept.payload.data(), kept.payload.size());
  }
  kept_ = std::move(landing);
  return handled;
}

void LaterSink::on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) {
  const auto kept =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return !one.whole && one.from == &from; });
  if (kept == kept_.end()) return sink_->on_landed(from, header, landing, bytes, std::move(error));
  kept->whole = true;
  if (error) kept_.erase(kept);  // nobody was told that it had begun
  else if (!short_) (void)deliver();
}

}  // namespace tern
