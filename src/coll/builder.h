// Builder: what an algorithm uses. It names processes by rank in a team and writes steps into a schedule. A team is the
// communicator's group; on an intercommunicator either the remote group or, for the part of the work that each side
// does alone, the local one (its messages have a plane of their own, so that they cannot match the others).
// Thread rule: under the rank's lock; lives only while a schedule is built.
#pragma once

#include "base/assert.h"
#include "coll/environment.h"
#include "coll/schedule.h"

namespace tern {

class Builder {
 public:
  enum class Team : uint8_t { whole, local, remote };

  /// whole: an intracommunicator; local, remote: of an intercommunicator.
  Builder(Schedule& schedule, CollectiveEnvironment& environment, Team team = Team::whole)
      : schedule_(schedule), environment_(environment), communicator_(schedule.communicator()) {
    group_ = team == Team::remote ? &communicator_.remote_group() : &communicator_.group();
    context_ = team == Team::local ? communicator_.context() | kLocalPlane
                                   : communicator_.context(Communicator::Plane::collective);
    self_ = rank_ = communicator_.rank();
    size_ = group_->size();
  }
  Builder team(Team team) const { return Builder(schedule_, environment_, team); }
  /// From now on only the members `ranks` of the group, in that order; this process is `index`-th of them. The array
  /// stays valid while the schedule is built (Builder::temporary).
  void narrow(const int* ranks, int size, int index) {
    TERN_ASSERT(!ranks_ && index >= 0 && index < size && ranks[index] == self_);
    ranks_ = ranks;
    rank_ = index;
    size_ = size;
  }

  /// This rank (in the local group), and how many processes the team has.
  int rank() const { return rank_; }
  int size() const { return size_; }
  Schedule& schedule() const { return schedule_; }
  CollectiveEnvironment& environment() const { return environment_; }
  const Datatype& byte() const { return *environment_.byte; }

  /// Empty messages are omitted on both sides: equal signatures let both know.
  void send(const void* buffer, Count count, const Datatype& type, int to) {
    if (count * type.size() != 0) signal(buffer, count, type, to);
  }
  void receive(void* buffer, Count count, const Datatype& type, int from) {
    if (count * type.size() != 0) await(buffer, count, type, from);
  }
  void send(const Block& block, int to) { send(block.data, block.count, *block.type, to); }
  void receive(const Block& block, int from) { receive(block.data, block.count, *block.type, from); }
  void send_bytes(const void* data, size_t bytes, int to) { send(data, Count(bytes), byte(), to); }
  void receive_bytes(void* data, size_t bytes, int from) { receive(data, Count(bytes), byte(), from); }
  /// Messages that are sent even when empty (barriers).
  void signal(const void* buffer, Count count, const Datatype& type, int to) {
    Step step;
    step.kind = Step::Kind::send;
    step.source = self_;
    TERN_DEBUG_ASSERT(to >= 0 && to < size_);
    step.peer = group_->peer(number(to));
    step.context = context_;
    step.from = buffer;
    step.from_count = count;
    step.from_type = &type;
    schedule_.emit(step);
  }
  void await(void* buffer, Count count, const Datatype& type, int from) {
    Step step;
    step.kind = Step::Kind::receive;
    TERN_DEBUG_ASSERT(from >= 0 && from < size_);
    step.source = number(from);
    step.peer = group_->peer(number(from));
    step.context = context_;
    step.to = buffer;
    step.to_count = count;
    step.to_type = &type;
    schedule_.emit(step);
  }
  void signal(int to) { signal(nullptr, 0, byte(), to); }
  void await(int from) { await(nullptr, 0, byte(), from); }

  /// right[i] = left[i] op right[i]: the left operand is the one of the lower rank.
  void reduce(const void* left, void* right, Count count, const Datatype& type) {
    if (count == 0) return;
    Step step;
    step.kind = Step::Kind::reduce;
    step.from = left;
    step.to = right;
    step.to_count = count;
    step.to_type = &type;
    schedule_.emit(step);
  }
  void copy(const void* from, Count from_count, const Datatype& from_type, void* to, Count to_count,
            const Datatype& to_type) {
    Step step;
    step.kind = Step::Kind::copy;
    step.from = from;
    step.from_count = from_count;
    step.from_type = &from_type;
    step.to = to;
    step.to_count = to_count;
    step.to_type = &to_type;
    schedule_.emit(step);
  }
  void copy(const void* from, void* to, Count count, const Datatype& type) { copy(from, count, type, to, count, type); }
  void copy(const Block& from, const Block& to) {
    copy(from.data, from.count, *from.type, to.data, to.count, *to.type);
  }
  void copy_bytes(const void* from, void* to, size_t bytes) {
    copy(from, Count(bytes), byte(), to, Count(bytes), byte());
  }
  void pack(const Block& from, void* to) { copy(from.data, from.count, *from.type, to, Count(from.bytes()), byte()); }
  void unpack(const void* from, const Block& to) { copy(from, Count(to.bytes()), byte(), to.data, to.count, *to.type); }
  /// Everything begun so far must be complete before the next step.
  void fence() {
    Step step;
    step.kind = Step::Kind::fence;
    schedule_.emit(step);
  }
  /// All receives begun so far must be complete before the next step; sends may go on.
  void fence_receives() {
    Step step;
    step.kind = Step::Kind::fence_receives;
    schedule_.emit(step);
  }

  /// Memory for `bytes` that lives as long as the schedule.
  std::byte* temporary(size_t bytes) { return schedule_.allocate(bytes); }
  /// Memory for `count` elements of a type, as a buffer argument (moved by the lower bound, aligned as the
  /// type wants).
  std::byte* temporary(Count count, const Datatype& type);

 private:
  static constexpr uint64_t kLocalPlane = 3;  ///< of context ids (comm/context.h); 0 to 2 are in use
  Schedule& schedule_;
  CollectiveEnvironment& environment_;
  Communicator& communicator_;
  int number(int rank) const { return ranks_ ? ranks_[rank] : rank; }

  Group* group_;
  uint64_t context_;
  int self_;                    ///< my rank in the communicator: the source that my messages carry
  const int* ranks_ = nullptr;  ///< of the team's members in the group; null: all
  int rank_, size_;
};

/// Address of element `index`.
inline std::byte* element(void* buffer, Count index, const Datatype& type) {
  return static_cast<std::byte*>(buffer) + index * type.extent();
}
inline const std::byte* element(const void* buffer, Count index, const Datatype& type) {
  return static_cast<const std::byte*>(buffer) + index * type.extent();
}

}  // namespace tern
