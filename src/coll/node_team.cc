#include "coll/node_team.h"

#include <new>

namespace tern {

bool NodeTeam::possible(const Communicator& communicator) {
  NodeMemory* memory = communicator.p2p().node_memory;
  if (!memory || communicator.is_inter() || communicator.size() < 2 || communicator.size() > kMostMembers)
    return false;
  for (int i = 0; i < communicator.size(); ++i) {
    if (!memory->shares(communicator.peer(i))) return false;
  }
  return true;
}

NodeTeam::NodeTeam(Communicator& communicator, uint64_t offset)
    : memory_(*communicator.p2p().node_memory),
      progress_(communicator.p2p().progress()),
      rank_(communicator.rank()),
      size_(communicator.size()),
      offset_(offset),
      slots_begin_(memory_.at(offset) + kHeadBytes),
      left_(reinterpret_cast<std::atomic<uint32_t>*>(memory_.at(offset))) {
  for (int i = 0; i < size_; ++i) slots_.push_back(memory_.slot(communicator.peer(i)));
  memory_.add_watch(*this);
}

NodeTeam::~NodeTeam() {
  memory_.remove_watch(*this);
  left_->fetch_add(1, std::memory_order_acq_rel);
  if (rank_ == 0) memory_.release_when(offset_, *left_, uint32_t(size_));
}

std::byte* NodeTeam::enter() {
  ++sequence_;
  if (sequence_ >= kRing && all_entered_ + kRing <= sequence_) {
    // Members that lag are waited for up to the newest operation that all have certainly entered to be done
    // with the slot.
    uint64_t needed = sequence_ - kRing + 1;
    for (int i = 0; i < size_; ++i) {
      if (i == rank_) continue;
      std::atomic<uint64_t>& theirs = number(i, needed);
      if (theirs.load(std::memory_order_acquire) < needed) wait_for(theirs, needed);
    }
    all_entered_ = needed;
    // Look ahead, so that the next operations need not look.
    for (uint64_t s = needed + 1; s < sequence_; ++s) {
      for (int i = 0; i < size_; ++i) {
        if (i != rank_ && number(i, s).load(std::memory_order_acquire) < s) return data(rank_, sequence_);
      }
      all_entered_ = s;
    }
  }
  return data(rank_, sequence_);
}

void NodeTeam::wait_for(std::atomic<uint64_t>& theirs, uint64_t value) {
  awaited_ = &theirs;
  awaited_value_ = value;
  progress_.wait_until([&] { return theirs.load(std::memory_order_acquire) >= value; });
  awaited_ = nullptr;
}

}  // namespace tern
