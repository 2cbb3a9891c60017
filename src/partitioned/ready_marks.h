// ReadyMarks: which partitions of a send are ready, in groups that leave as one message each. Threads mark partitions
// at the same time without a lock; the one whose mark makes a group whole is told so, and sends it.
//
//   group    0                              1            A group begins with a word of its own. The last mark of a
//   words    [64 partitions] [36]           [64] [36]    word counts it off its group; the last word makes the group
//   counts   2 words to fill                2            whole. A group of one word needs no count.
//
// Who is told that a group is whole sees what all threads wrote before their marks (release by each, acquire by the
// last, handed on through the count).
// Thread rule: `mark` and `marked` by any thread at any time; `open` while nobody marks; `close` under the rank's lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/assert.h"

namespace tern::partitioned {

class ReadyMarks {
 public:
  /// All partitions are marked at first: none can be marked before `open`.
  ReadyMarks(int partitions, int group_partitions)
      : partitions_(partitions),
        group_partitions_(group_partitions),
        words_per_group_((group_partitions + kBits - 1) / kBits),
        groups_((partitions + group_partitions - 1) / group_partitions),
        words_(std::make_unique<std::atomic<uint64_t>[]>(size_t(words()))),
        unfilled_(words_per_group_ > 1 ? std::make_unique<std::atomic<int>[]>(size_t(groups_)) : nullptr) {
    TERN_ASSERT(partitions > 0 && group_partitions > 0);
    close();
  }

  int groups() const { return groups_; }
  int group_of(int partition) const { return partition / group_partitions_; }

  // --- Words. Some at the end of the last group may have no partitions.
  int words() const { return groups_ * words_per_group_; }
  int word_of(int partition) const {
    return group_of(partition) * words_per_group_ + partition % group_partitions_ / kBits;
  }
  int group_of_word(int word) const { return word / words_per_group_; }
  /// The mark of a partition in its word.
  uint64_t bit_of(int partition) const { return uint64_t{1} << (partition % group_partitions_ % kBits); }
  /// The last partition that is in the word of this one.
  int last_beside(int partition) const {
    const int in_group = partition % group_partitions_;
    const int end = std::min((in_group / kBits + 1) * kBits, group_partitions_);
    return std::min(partition - in_group + end, partitions_) - 1;
  }
  bool marked(int word, uint64_t bits) const { return words_[size_t(word)].load(std::memory_order_relaxed) & bits; }

  struct Marked {
    bool before;  ///< one of them was marked before, which is an error of the program
    bool whole;   ///< this has made the group whole
  };
  /// Marks partitions of one word.
  Marked mark(int word, uint64_t bits) {
    const uint64_t before = words_[size_t(word)].fetch_or(bits, std::memory_order_acq_rel);
    const uint64_t all = bits_of(word);
    TERN_DEBUG_ASSERT((bits & ~all) == 0);
    Marked result{.before = (before & bits) != 0, .whole = false};
    if (before == all || (before | bits) != all) return result;
    std::atomic<int>* unfilled = unfilled_ ? &unfilled_[size_t(group_of_word(word))] : nullptr;
    result.whole = !unfilled || unfilled->fetch_sub(1, std::memory_order_acq_rel) == 1;
    return result;
  }
  /// How many partitions are marked.
  int count() const {
    int marked = 0;
    for (int word = 0; word < words(); ++word)
      marked += std::popcount(words_[size_t(word)].load(std::memory_order_relaxed));
    return marked;
  }

  /// For tests: where they are.
  template <typename Visit>
  void for_each_word(Visit&& visit) const {
    visit(words_.get(), size_t(words()) * sizeof words_[0]);
    if (unfilled_) visit(unfilled_.get(), size_t(groups_) * sizeof unfilled_[0]);
  }

  /// No partition is marked from now on.
  void open() {
    for (int word = 0; word < words(); ++word) words_[size_t(word)].store(0, std::memory_order_relaxed);
    for (int group = 0; unfilled_ && group < groups_; ++group) {
      int filled = words_per_group_;
      while (bits_of(group * words_per_group_ + filled - 1) == 0) --filled;
      unfilled_[size_t(group)].store(filled, std::memory_order_relaxed);
    }
  }
  /// All are; no group is whole by that.
  void close() {
    for (int word = 0; word < words(); ++word) words_[size_t(word)].fetch_or(bits_of(word), std::memory_order_relaxed);
  }

 private:
  static constexpr int kBits = 64;  // of a word
  /// Those of its partitions.
  uint64_t bits_of(int word) const {
    const int64_t group = group_of_word(word);
    const int64_t begin = group * group_partitions_ + int64_t{word % words_per_group_} * kBits;
    const int64_t end = std::min<int64_t>((group + 1) * group_partitions_, partitions_);
    const int64_t count = std::clamp<int64_t>(end - begin, 0, kBits);
    return count == kBits ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  }

  const int partitions_, group_partitions_, words_per_group_, groups_;
  const std::unique_ptr<std::atomic<uint64_t>[]> words_;
  const std::unique_ptr<std::atomic<int>[]> unfilled_;  ///< words of each group that are not full; null: one word each
};

}  // namespace tern::partitioned
