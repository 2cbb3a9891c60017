// The messages of one pair of ranks that are not known to have arrived, oldest first. Small ones are copies, so that
// their sends are complete; long ones are kept in their operations, which complete when the peer has them. When a lane
// is lost, what the peer does not have is sent again from here (path_scheduler.h).
//
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/intrusive_list.h"
#include "base/pool.h"
#include "fabric/path.h"

namespace tern::scheduler {

class Unconfirmed {
  struct Record;

 public:
  /// Longest message that is copied when its path has taken it, so that the send completes. A longer one keeps the
  /// sender's memory until it is confirmed, which takes a round trip; copying 64 KiB takes as long (6.4 us).
  static constexpr size_t kCopyBytes = 64 * 1024;
  /// Copies for one peer, bounds memory: sixteen of the largest. Beyond this, operations hold their memory.
  static constexpr size_t kMaxCopiedBytes = 1024 * 1024;

  /// What the pairs of one scheduler share.
  struct Shared {
    PollHints& hints;  ///< not dormant when `finished` gets something
    /// Paths have returned all messages to this peer. Set once.
    std::function<void(Lane& pair)> returned;
    IntrusiveList<SendOperation> finished{};  ///< complete; `done` is due
    uint32_t held = 0;                        ///< operations that wait for a confirmation
    Recycler<Record> records{};
    std::vector<std::unique_ptr<std::byte[]>> spare{};  ///< of the longest copies: their memory is warm
  };

  Unconfirmed(Lane& pair, Shared& shared) : pair_(pair), shared_(shared) {}
  ~Unconfirmed();
  Unconfirmed(const Unconfirmed&) = delete;
  Unconfirmed& operator=(const Unconfirmed&) = delete;

  /// Whether a copy of `bytes` may be added.
  bool has_room(size_t bytes) const { return copied_bytes_ + bytes <= kMaxCopiedBytes; }
  /// A path has taken this whole message.
  void add_copy(const wire::Header& header, const void* payload, size_t bytes);
  /// Returns the operation that a path is to carry out; the caller names its lane. `user` completes when the message
  /// has arrived or is copied.
  SendOperation& add(SendOperation& user);
  /// The peer has `count` messages in all.
  void confirm_up_to(uint64_t count);
  /// The peer has `more` messages than confirmed before.
  void confirm(uint64_t more) { confirm_up_to(confirmed_ + more); }
  /// All messages once more, oldest first: `send(operation)` as after `add`. No path holds any.
  template <typename Send>
  void repeat(Send&& send) {
    for (Record* record = records_.front(); record; record = records_.next(record)) send(prepare(*record));
  }
  /// Takes `user` back if `path`, which carries it, has sent none of it.
  bool withdraw(SendOperation& user, Path& path);
  /// Empties it. Operations that are not complete go to the end of `users`.
  void surrender(IntrusiveList<SendOperation>& users);
  /// Messages that paths hold.
  uint32_t in_paths() const { return in_paths_; }

 private:
  struct Carried final : SendOperation {
    Record* record = nullptr;
  };
  /// Recycled: what a use does not set is as after construction.
  struct Record : ListHook<Record> {
    static constexpr size_t kInlineBytes = kAlwaysWholeBytes;  ///< protocols' messages need no allocation
    Record() {
      carried.record = this;
      carried.done = path_is_done;
    }
    Record(const Record&) = delete;
    Record& operator=(const Record&) = delete;

    Record* next_free = nullptr;
    Unconfirmed* owner = nullptr;
    wire::Header header{};
    size_t bytes = 0;
    Cursor original;                ///< while `user` is set: its payload from the beginning
    SendOperation* user = nullptr;  ///< not yet complete; null: there is none, or it is complete
    bool in_path = false;           ///< a path holds `carried`
    bool confirmed = false;         ///< waits only for its path to return `carried`
    bool copied = false;            ///< the data is here, inline or on the heap
    std::unique_ptr<std::byte[]> heap;
    std::byte small[kInlineBytes];
    Carried carried;
    std::byte* data() { return heap ? heap.get() : small; }
  };

  static void path_is_done(SendOperation& operation, Error error);
  Record& new_record(const wire::Header& header, size_t bytes);
  SendOperation& prepare(Record& record);
  void returned(Record& record, bool failed);
  std::byte* memory_for_copy(Record& record);
  void copy(Record& record);
  void release(Record& record);
  void recycle(Record& record);
  void finish(Record& record);

  Lane& pair_;
  Shared& shared_;
  IntrusiveList<Record> records_;  ///< oldest first
  size_t copied_bytes_ = 0;        ///< size of the copies
  uint32_t in_paths_ = 0;
  uint64_t confirmed_ = 0;  ///< messages that the peer has
};

}  // namespace tern::scheduler
