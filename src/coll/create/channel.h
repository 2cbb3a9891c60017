// Channel: the few ranks that make a communicator together, and their communication patterns: one message, broadcast,
// allgather. Everything sent is 64-bit words. Source: MPI 5.0 section 7.4 leaves the method open; broadcast is a
// binomial tree, allgather is Bruck's (IEEE TPDS 8(11), 1997), both ceil(log2 n) rounds for any n. Thread rule: under
// the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/peer_table.h"
#include "coll/create/flow.h"
#include "comm/communicator.h"

namespace tern::create {

using Words = std::vector<uint64_t>;

/// What making communicators needs from the process above. A value; what it refers to outlives every
/// operation.
struct Maker {
  RankEnvironment& environment;
  const Datatype& byte;  ///< MPI_BYTE of this rank
  const PeerTable& peers;
  std::function<uint64_t()> new_context;  ///< a context id that no other call, here or elsewhere, returns
};

/// A value: cheap to copy into a flow's frame (unless it has the members of a subset).
class Channel {
 public:
  /// All members of `group`; messages are matched by (context, tag, rank in `group`).
  Channel(const Maker& maker, Group& group, uint64_t context, int tag);
  /// Only the ranks `members` of `group`, which includes this rank. Indices below are into `members`.
  Channel(const Maker& maker, Group& group, uint64_t context, int tag, std::vector<int> members);
  /// All members of an intracommunicator, in the order of its collectives: takes its next collective tag.
  static Channel of(const Maker& maker, Communicator& intra);
  /// From one side to the ranks `far` of another, which know this rank as `self`: for send, receive and exchange.
  static Channel across(const Maker& maker, Group& far, int self, uint64_t context, int tag);

  int size() const { return members_.empty() ? group_->size() : int(members_.size()); }
  int rank() const { return rank_; }

  /// `words` of the sender; both sides know how many. They stay the caller's, valid until the flow has
  /// returned.
  Flow send(int to, std::span<const uint64_t> words) const;
  Flow receive(int from, std::span<uint64_t> words) const;
  Flow exchange(int with, std::span<const uint64_t> mine, std::span<uint64_t> theirs) const;
  /// Any number of words, which the other side learns.
  Flow exchange(int with, const Words& mine, Words& theirs) const;

  Flow broadcast(int root, std::span<uint64_t> words) const;
  /// Any number of words, which only the root knows before.
  Flow broadcast(int root, Words& words) const;
  /// `mine` of every member, by index, one after the other; all have equally many words.
  Flow allgather(std::span<const uint64_t> mine, Words& all) const;
  /// The sum over all members, word by word, to all.
  Flow sum(std::span<uint64_t> words) const;
  /// The smallest word of all members, to all.
  Flow smallest(uint64_t& word) const;
  /// From the member that sends first.
  Flow receive_any(std::span<uint64_t> words) const;

  /// The request behind `send`, for several at once.
  Request* start_send(int to, std::span<const uint64_t> words) const;

 private:
  Request* start_receive(int from, std::span<uint64_t> words) const;
  using Join = uint64_t (*)(uint64_t, uint64_t);
  Flow join_all(std::span<uint64_t> words, Join join) const;
  int number(int index) const { return members_.empty() ? index : members_[size_t(index)]; }

  PointToPoint* p2p_;
  const Datatype* byte_;
  Ref<Group> group_;
  std::vector<int> members_;  ///< empty: all of the group
  uint64_t context_;
  int tag_;
  int rank_;  ///< my index; without meaning across
  int self_;  ///< the source that my messages carry
};

}  // namespace tern::create
