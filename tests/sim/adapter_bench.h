// What one rank needs to drive the simulated adapter without a Process: an Hca, one completion queue, memory, and a
// launcher through which addresses travel. Used by the tests of the adapter.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/rdma/verbs/hca.h"
#include "sim/adapter.h"
#include "sim/machine.h"

namespace tern::sim {

class AdapterBench {
 public:
  static constexpr size_t kBytes = 1 << 16;

  explicit AdapterBench(Machine::Rank& rank, size_t bytes = kBytes, rdma::Access access = {true, true, true, true})
      : strand(rank.strand), launcher(rank.make_launcher()), hca(rank.make_hca()), memory(bytes) {
    EXPECT_FALSE(hca->make_channel(channel));
    EXPECT_FALSE(hca->make_completion_queue({4096, channel.get()}, queue));
    EXPECT_FALSE(hca->register_memory(memory.data(), memory.size(), access, region));
  }

  rdma::QueuePairOptions options(rdma::QueuePairKind kind = rdma::QueuePairKind::rc) {
    rdma::QueuePairOptions chosen;
    chosen.kind = kind;
    chosen.sends = queue.get();
    chosen.receives = queue.get();
    chosen.send_depth = 128;
    chosen.receive_depth = 128;
    chosen.send_pieces = chosen.receive_pieces = 4;
    chosen.inline_bytes = 64;
    return chosen;
  }
  std::unique_ptr<rdma::QueuePair> make(const rdma::QueuePairOptions& chosen) {
    std::unique_ptr<rdma::QueuePair> pair;
    EXPECT_FALSE(hca->make_queue_pair(chosen, pair));
    return pair;
  }

  /// Everybody puts a value and gets everybody's; a fence. Plain data only.
  template <typename T>
  std::vector<T> exchange(const T& mine) {
    std::string key = "x" + std::to_string(exchanges_++);
    EXPECT_FALSE(launcher->put(key, std::string(reinterpret_cast<const char*>(&mine), sizeof mine)));
    EXPECT_FALSE(launcher->fence());
    std::vector<T> all(size_t(launcher->size()));
    for (int r = 0; r < launcher->size(); ++r) {
      std::string value;
      EXPECT_FALSE(launcher->get(r, key, value));
      memcpy(&all[size_t(r)], value.data(), sizeof(T));
    }
    return all;
  }
  void fence() { EXPECT_FALSE(launcher->fence()); }

  /// Where memory is, for peers.
  struct Target {
    uint64_t address;
    uint32_t key;
  };
  Target target() const { return {reinterpret_cast<uint64_t>(memory.data()), region->remote_key()}; }
  rdma::Piece piece(size_t offset, size_t bytes) const {
    return {reinterpret_cast<uint64_t>(memory.data()) + offset, uint32_t(bytes), region->local_key()};
  }

  /// Waits asleep until the next completion.
  rdma::Completion wait() {
    rdma::Completion completion;
    while (queue->poll(&completion, 1) == 0) {
      queue->arm(false);
      if (queue->poll(&completion, 1) != 0) break;
      strand.block(kNever_ns, "waiting for a completion");
    }
    return completion;
  }
  void post(rdma::QueuePair& pair, const rdma::WorkRequest& work) { EXPECT_EQ(pair.post({&work, 1}), 1u); }
  rdma::Completion run(rdma::QueuePair& pair, const rdma::WorkRequest& work) {
    post(pair, work);
    return wait();
  }
  void post_receive(rdma::QueuePair& pair, uint64_t id, const rdma::Piece& where) {
    rdma::ReceiveRequest request{id, &where, 1};
    EXPECT_EQ(pair.post_receives({&request, 1}), 1u);
  }
  uint64_t& word(size_t offset) { return *reinterpret_cast<uint64_t*>(memory.data() + offset); }
  void fill(size_t offset, size_t bytes, int seed) {
    for (size_t i = 0; i < bytes; ++i) memory[offset + i] = std::byte(uint8_t(seed + int(i * 7)));
  }
  bool filled(size_t offset, size_t bytes, int seed) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (memory[offset + i] != std::byte(uint8_t(seed + int(i * 7)))) return false;
    }
    return true;
  }

  Strand& strand;
  std::unique_ptr<Launcher> launcher;
  std::unique_ptr<rdma::Hca> hca;
  std::unique_ptr<rdma::EventChannel> channel;
  std::unique_ptr<rdma::CompletionQueue> queue;
  std::vector<std::byte> memory;
  std::unique_ptr<rdma::MemoryRegion> region;

 private:
  int exchanges_ = 0;
};

/// A work request of one piece, which it holds.
struct Work : rdma::WorkRequest {
  Work(rdma::Verb its_verb, const rdma::Piece& piece, uint64_t its_id) : held(piece) {
    id = its_id;
    verb = its_verb;
    pieces = &held;
    piece_count = 1;
  }
  Work(const Work& other) : rdma::WorkRequest(other), held(other.held) { pieces = &held; }
  Work& operator=(const Work& other) {
    rdma::WorkRequest::operator=(other);
    held = other.held;
    pieces = &held;
    return *this;
  }
  rdma::Piece held;
};

inline Work work(rdma::Verb verb, const rdma::Piece& piece, uint64_t id = 1) { return {verb, piece, id}; }

inline Work work(rdma::Verb verb, const rdma::Piece& piece, const AdapterBench::Target& at, size_t offset,
                 uint64_t id = 1) {
  Work request(verb, piece, id);
  request.remote_address = at.address + offset;
  request.remote_key = at.key;
  return request;
}

/// An RC connection to that rank; collective over the two.
inline std::unique_ptr<rdma::QueuePair> join(AdapterBench& bench, int peer, rdma::QueuePairOptions options) {
  auto pair = bench.make(options);
  auto all = bench.exchange(pair->address());
  EXPECT_FALSE(pair->connect(all[size_t(peer)]));
  bench.fence();
  return pair;
}

}  // namespace tern::sim
