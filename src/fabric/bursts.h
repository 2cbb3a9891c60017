// Bursts: the lanes whose small messages may wait for the next ones (coalescing.h), until the next poll.
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/coalescing.h"
#include "wire/header.h"

namespace tern {

/// Of lanes, or streams of one, that have a member `coalescing`.
template <typename Stream>
class Bursts {
 public:
  bool empty() const { return streams_.empty(); }
  void note_poll() { ++polls_; }
  /// A message leaves on that stream now. True: it may wait.
  bool may_wait(Stream& stream, uint64_t now_ns, const wire::Header& header) {
    const bool may = stream.coalescing.may_wait(now_ns, polls_, !wire::sender_comes_back(header));
    if (stream.coalescing.open() && std::find(streams_.begin(), streams_.end(), &stream) == streams_.end())
      streams_.push_back(&stream);
    return may;
  }
  /// The poll has come: calls `send` for each stream of which something may have waited.
  template <typename Send>
  void end(uint64_t now_ns, Send&& send) {
    for (Stream* stream : streams_) {
      if (stream->coalescing.end(now_ns)) send(*stream);
    }
    streams_.clear();
  }
  void forget(Stream& stream) { std::erase(streams_, &stream); }

 private:
  std::vector<Stream*> streams_;
  uint64_t polls_ = 0;
};

}  // namespace tern
