// ReceiveLooks: which receives look at what has come before they are posted, and which are announced to their senders.
//
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class ReceiveLooks {
 public:
  /// A path is used. `announce_from_bytes`: the shortest receive that it is worth to announce; 0: none is.
  void add_path(size_t announce_from_bytes) {
    if (announce_from_bytes == 0) return;
    announce_from_bytes_ = std::min(announce_from_bytes_, announce_from_bytes);
    if (look_from_bytes_ != 0) look_from_bytes_ = announce_from_bytes_;
  }
  /// Tuple queues are used: any receive may be for one.
  void look_always() { look_from_bytes_ = 0; }

  bool looks(size_t bytes) const { return bytes >= look_from_bytes_; }
  bool announces(size_t bytes) const { return bytes >= announce_from_bytes_; }

 private:
  size_t announce_from_bytes_ = SIZE_MAX;  ///< shortest receive that is announced, over all paths
  size_t look_from_bytes_ = SIZE_MAX;      ///< shortest that needs a look: the same; 0 with tuple queues
};

}  // namespace tern
