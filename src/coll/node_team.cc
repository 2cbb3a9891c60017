#include "coll/node_team.h"

#include <algorithm>

#include "base/assert.h"
#include "base/looks.h"

namespace tern {

bool NodeTeam::possible(const Communicator& communicator, std::span<const int> ranks) {
  NodeMemory* memory = communicator.environment().node_memory;
  if (!memory || ranks.size() < 2 || ranks.size() > size_t{kMaxMembers}) return false;
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return memory->shares(communicator.peer(rank)); });
}

static_assert(NodeTeam::short_slots_for(1) * NodeTeam::kShortStride <= NodeTeam::kBulkSlots * NodeTeam::kBulkBytes &&
              NodeTeam::kShortBytes <= NodeTeam::kShortStride);
static_assert(NodeTeam::kAckInterval <= NodeTeam::kBulkSlots);
constexpr bool longer_data_are_less_far_ahead() {
  for (int members = 1; members <= NodeTeam::kMaxMembers; ++members) {
    const uint64_t slots = NodeTeam::short_slots_for(members);
    if (slots < NodeTeam::kBulkSlots || slots > NodeTeam::ring_for(members)) return false;
  }
  return true;
}
static_assert(longer_data_are_less_far_ahead());

NodeTeam::NodeTeam(Communicator& communicator, std::vector<int> ranks, uint64_t offset, bool shares_cores)
    : memory_(*communicator.environment().node_memory),
      p2p_(communicator.environment().p2p),
      communicator_(communicator),
      ranks_(std::move(ranks)),
      rank_(int(std::find(ranks_.begin(), ranks_.end(), communicator.rank()) - ranks_.begin())),
      size_(int(ranks_.size())),
      ring_(shares_cores ? ring_for(size_) : kRing),
      short_slots_(shares_cores ? short_slots_for(size_) : kBulkSlots),
      shares_cores_(shares_cores),
      offset_(offset),
      left_(reinterpret_cast<std::atomic<uint32_t>*>(memory_.at(offset))),
      lines_(reinterpret_cast<Line*>(memory_.at(offset) + kLinesAt)),
      bulk_(memory_.at(offset) + bulk_at(size_)) {
  TERN_ASSERT(rank_ < size_);
  for (const int rank : ranks_) slots_.push_back(memory_.slot(communicator.peer(rank)));
  memory_.add_watch(*this);
}

NodeTeam::~NodeTeam() {
  TERN_DEBUG_ASSERT(!awaited_);
  memory_.remove_watch(*this);
  left_->fetch_add(1, std::memory_order_acq_rel);
  if (rank_ == 0) memory_.release_when(offset_, *left_, uint32_t(size_));
}

void NodeTeam::acknowledge() {
  TERN_DEBUG_ASSERT(entered(rank_).load(std::memory_order_relaxed) <= sequence_);
  entered(rank_).store(sequence_, std::memory_order_release);
  for (int i = 0; i < size_; ++i) {
    if (i != rank_) memory_.wake_if_asleep(slots_[size_t(i)]);
  }
}

bool NodeTeam::make_room(uint64_t needed) {
  uint64_t least = sequence_;
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) continue;
    std::atomic<uint64_t>& theirs = entered(i);
    uint64_t value = theirs.load(std::memory_order_acquire);
    if (value < needed) {
      if (!wait_for(theirs, needed)) return false;
      value = theirs.load(std::memory_order_acquire);
    }
    if (value < least) least = value;
  }
  all_entered_ = least;
  TERN_DEBUG_ASSERT(least >= needed && least <= sequence_);
  return true;
}

bool NodeTeam::make_room_for_one(uint64_t needed) {
  std::atomic<uint64_t>& theirs = entered(only_reader_);
  if (theirs.load(std::memory_order_acquire) < needed && !wait_for(theirs, needed)) return false;
  one_entered_ = theirs.load(std::memory_order_acquire);
  return true;
}

// What the last one has not read yet counts as read by all.
void NodeTeam::change_reader(int member) {
  last_for_all_ = std::max(last_for_all_, last_for_one_);
  only_reader_ = member;
  one_entered_ = std::max<uint64_t>(all_entered_, 1);
}

bool NodeTeam::wait_for(const std::atomic<uint64_t>& number, uint64_t value) {
  auto there = [&] { return number.load(std::memory_order_acquire) >= value; };
  ProgressEngine& progress = p2p_.progress();
  if (progress.look_closely<Look::team>(there)) return true;
  TERN_DEBUG_ASSERT(!awaited_);
  awaited_ = &number;
  awaited_value_ = value;
  progress.wait_until([&] { return there() || somebody_lost(); });
  awaited_ = nullptr;
  return there();
}

bool NodeTeam::somebody_lost() {
  if (p2p_.losses() != losses_seen_) {
    losses_seen_ = p2p_.losses();
    TERN_DEBUG_ASSERT(size_ > 1);
    for (int i = 0; i < size_; ++i) {
      if (p2p_.lost(communicator_.peer(ranks_[size_t(i)]))) lost_ = i;
    }
  }
  return lost_ >= 0;
}

void NodeTeam::disagree(int member, uint64_t what, size_t expected) {
  const uint64_t sent = what & ((uint64_t{1} << kOperationShift) - 1);
  if (what - sent != operation_) {
    const auto name = [](uint64_t operation) { return function_of(Operation((operation >> kOperationShift) - 1)); };
    error_ = Error(ErrorClass::other, "rank " + std::to_string(ranks_[size_t(member)]) + " is in " + name(what - sent) +
                                          ", this rank in " + name(operation_) +
                                          ". All ranks of a communicator must call the same collective operations in "
                                          "the same order.");
    return;
  }
  error_ = Error(ErrorClass::truncate, "rank " + std::to_string(ranks_[size_t(member)]) + " has contributed " +
                                           std::to_string(sent) + " bytes, but " + std::to_string(expected) +
                                           " are expected here. Counts and datatypes must agree on all processes.");
}

Error NodeTeam::error() {
  if (error_) return std::move(error_);
  return Error(ErrorClass::proc_aborted,
               "rank " + std::to_string(ranks_[size_t(lost_)]) + " of the communicator has ended");
}

}  // namespace tern
