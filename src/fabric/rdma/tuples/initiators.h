// Initiators: the queue pairs by which tuple queues send to one peer, and which queue has which.
//
// Head-of-line blocking: a queue pair carries its messages in order, so a message that waits for a late receive would
// delay all behind it; for ever, if their receives are posted first (a correct program would hang). Koop et al. do not
// discuss this. Here each pair of ranks has several initiators (TERN_TUPLE_WAYS), and one belongs to a single queue
// from the first message sent on it until all of them have arrived; a queue keeps its initiator while it has messages
// in flight, which keeps their order. When all are occupied the message is not taken.
//
// Owns them; an initiator stays where it is. Thread rule: as Path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "fabric/rdma/verbs/hca.h"
#include "fabric/tuple_queues.h"

namespace tern::rdma {

struct Initiator {
  std::unique_ptr<QueuePair> pair;
  TupleSendQueue* user = nullptr;   ///< the queue that has messages in flight on it
  TupleSendQueue* asker = nullptr;  ///< the queue in whose ticket it was offered, while the answer is awaited
  bool connected = false;
  uint32_t failures = 0;     ///< since a message has arrived by it
  const char* trouble = "";  ///< the last of them
};

class Initiators {
 public:
  /// One for the peer to connect to, offered in `asker`'s ticket: one that the peer has refused before, or a new one
  /// by `make(pair)` while there are less than `most`. Null: none.
  template <typename Make>
  Initiator* offer(TupleSendQueue& asker, size_t most, Make&& make) {
    for (auto& initiator : all_) {
      if (initiator->connected || initiator->asker) continue;
      initiator->asker = &asker;
      return initiator.get();
    }
    if (all_.size() >= most) return nullptr;
    auto made = std::make_unique<Initiator>();
    if (Error error = make(made->pair)) return nullptr;
    made->asker = &asker;
    all_.push_back(std::move(made));
    return all_.back().get();
  }
  /// The answer to its ticket is here, or not wanted any more. Null: none was offered.
  Initiator* take_offered(const TupleSendQueue& asker) {
    for (auto& initiator : all_) {
      if (initiator->asker != &asker) continue;
      TERN_DEBUG_ASSERT(!initiator->connected);
      initiator->asker = nullptr;
      return initiator.get();
    }
    return nullptr;
  }
  /// One that is connected and unused belongs to `user` now; null: there is none.
  Initiator* occupy(TupleSendQueue& user) {
    for (auto& initiator : all_) {
      if (!initiator->connected || initiator->user) continue;
      initiator->user = &user;
      return initiator.get();
    }
    return nullptr;
  }
  /// By its queue pair's number, if it is connected and unused; null: another one.
  Initiator* unused_of(uint32_t number) {
    for (auto& initiator : all_) {
      if (initiator->connected && !initiator->user && initiator->pair->number() == number) return initiator.get();
    }
    return nullptr;
  }
  /// Work in the adapter is dropped with them, and touches no memory any more.
  void clear() { all_.clear(); }

 private:
  std::vector<std::unique_ptr<Initiator>> all_;
};

}  // namespace tern::rdma
