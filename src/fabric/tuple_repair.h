// What all kinds of tuple queues (fabric/tuple_queues.h) share: TupleRepair, where the sender's end of a queue stands
// between the failure of its way and the receiver's answer; LentCopies, the memory that TupleQueues::lend lends.
//
//              a message fails       all that were out are back       the answer is here
//     sound ------------------> returning ------------------> asking ------------------> sound
//       \_____________________________\__________________________\_________> given up (the lane will be lost)
//
// Thread rule: the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace tern {

class TupleRepair {
 public:
  /// Only now are messages handed to the adapter.
  bool sound() const { return state_ == State::sound; }
  /// A message has failed; others that are out have not come back.
  bool returning() const { return state_ == State::returning; }
  /// All have, and the receiver has not answered.
  bool asking() const { return state_ == State::asking; }
  /// Whatever comes from adapter or receiver changes nothing any more.
  bool given_up() const { return state_ == State::given_up; }

  /// Returns whether it is the first.
  bool message_failed() {
    TERN_ASSERT(sound() || returning());  // a queue whose messages are all back gets none back
    return std::exchange(state_, State::returning) == State::sound;
  }
  void all_are_back() {
    TERN_ASSERT(returning());
    state_ = State::asking;
  }
  void answered() {
    TERN_ASSERT(asking());
    state_ = State::sound;
  }
  void give_up() { state_ = State::given_up; }

 private:
  enum class State : uint8_t { sound, returning, asking, given_up };
  State state_ = State::sound;
};

class LentCopies {
 public:
  /// Each has `bytes` bytes; 0: nothing is lent.
  explicit LentCopies(size_t bytes) : bytes_(bytes) {
    if (bytes_ == 0) return;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(kCount * bytes_);
    for (size_t i = kCount; i-- > 0;) free_.push_back(memory_.get() + i * bytes_);
  }
  /// To be registered with the adapter. All of it; empty where nothing is lent.
  std::byte* memory() const { return memory_.get(); }
  size_t all_bytes() const { return kCount * bytes_; }

  bool contains(const std::byte* memory) const {
    return memory >= memory_.get() && memory < memory_.get() + all_bytes();
  }
  /// As TupleQueues::lend.
  std::byte* lend(size_t bytes) {
    if (bytes > bytes_ || free_.empty()) return nullptr;
    std::byte* memory = free_.back();  // the last one used: its memory is warm
    free_.pop_back();
    return memory;
  }
  void give_back(std::byte* memory) {
    TERN_DEBUG_ASSERT(contains(memory));
    free_.push_back(memory);
  }

 private:
  static constexpr size_t kCount = 128;  // as many messages as one queue takes
  const size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::byte*> free_;
};

}  // namespace tern
