// CallTimers: timers of streams that are connecting, or probing their preferred network: the end of an attempt, or of
// the pause before the next one. Owns nothing. Thread rule: under the rank's lock. Units: nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class CallTimers {
 public:
  bool empty() const { return streams_.empty(); }
  void set(Stream& stream, bool timed) {
    if (stream.timed == timed) return;
    TERN_DEBUG_ASSERT((std::find(streams_.begin(), streams_.end(), &stream) == streams_.end()) == timed);
    stream.timed = timed;
    if (timed) streams_.push_back(&stream);
    else std::erase(streams_, &stream);
  }
  /// Calls `due(stream)` for each whose time is over; it may set and unset any.
  template <typename Due>
  void run(uint64_t now_ns, Due&& due) {
    if (next_deadline_ns() > now_ns) return;
    const std::vector<Stream*> now = streams_;
    for (Stream* stream : now) {
      if (stream->timed && !stream->peer.doomed && stream->due_ns() <= now_ns) due(*stream);
    }
  }
  uint64_t next_deadline_ns() const {
    uint64_t earliest = ~uint64_t{0};
    for (const Stream* stream : streams_) {
      if (!stream->peer.doomed) earliest = std::min(earliest, stream->due_ns());
    }
    return earliest;
  }

 private:
  std::vector<Stream*> streams_;
};

}  // namespace tern::tcp
