// What the tests of the shared-memory path share: ranks as forked processes, a sink that checks every byte,
// an engine.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "datatype/construct.h"
#include "datatype/predefined.h"
#include "fabric/shm/shm_path.h"
#include "progress/engine.h"
#include "progress/kernel_wait.h"
#include "tests/peer_sink.h"

namespace tern::test {

/// Memory that survives fork as one.
struct Common {
  std::atomic<int> arrived{0}, generation{0};
  std::atomic<uint64_t> words[64]{};
};
inline Common* make_common() {
  return new (mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Common;
}
inline void common_fence(Common& common, int ranks) {
  const int generation = common.generation;
  if (++common.arrived == ranks) {
    common.arrived = 0;
    ++common.generation;
  }
  while (common.generation == generation) sched_yield();
}

inline std::array<uint8_t, 32> test_key(uint64_t salt) {
  std::array<uint8_t, 32> key;
  Rng rng(salt * 1000003 + uint64_t(getpid()));
  for (auto& byte : key) byte = uint8_t(rng.next());
  return key;
}

/// The payload of message `number` from `source` at byte i; never the same at a place for neighbouring
/// messages.
inline std::byte pattern(uint32_t source, uint32_t number, size_t i) {
  return std::byte(uint8_t(i * 131 + number * 29 + source * 7 + (i >> 8)));
}

/// Receives numbered messages, in order per peer (header.tag), checks their bytes, and takes some into
/// strided buffers.
struct CheckingSink final : public test::PeerSink {
  /// A buffer type of `n` bytes in blocks with gaps.
  struct TypeOwner;
  struct FromPeer {
    uint32_t next = 0;
    std::vector<std::byte> buffer;
    std::shared_ptr<TypeOwner> type;
    bool strided = false;
  };
  std::vector<FromPeer> from;
  uint64_t messages = 0, bytes = 0, landed_with_error = 0;
  std::vector<PeerId> lost;
  std::function<void(PeerId, const wire::Header&)> on_each;

  explicit CheckingSink(size_t ranks) : from(ranks) {}

  void check(PeerId peer, const wire::Header& header, const std::byte* data, size_t n) {
    ASSERT_EQ(uint32_t(header.tag), from[peer].next) << "order from " << peer;
    for (size_t i = 0; i < n; ++i) {
      if (data[i] != pattern(peer, uint32_t(header.tag), i)) {
        FAIL() << "byte " << i << " of " << n << ", message " << header.tag << " from " << peer;
      }
    }
    ++from[peer].next;
    ++messages;
    bytes += n;
    if (on_each) on_each(peer, header);
  }
  void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t n) override {
    check(peer, header, payload, n);
  }
  Landing on_header(PeerId peer, const wire::Header& header, size_t n) override;
  void on_landed(PeerId peer, const wire::Header& header, Landing& landing, size_t n, Error error) override;
  void on_peer_lost(PeerId peer, Error) override { lost.push_back(peer); }
};

/// `n` bytes as blocks of 7 with gaps of 3.
struct CheckingSink::TypeOwner {
  PredefinedTypes predefined;
  Ref<Datatype> type;
  size_t blocks;
  explicit TypeOwner(size_t n) : blocks((n + 6) / 7) {
    Error error = construct::hvector(Count(blocks), 7, 10, predefined.get(0x247), type);
    if (error) abort();
    type->commit();
  }
  Cursor over(std::vector<std::byte>& memory, size_t n) {
    memory.assign(blocks * 10 + 1, std::byte{0});
    Cursor cursor(memory.data(), 1, *type);
    cursor.truncate(n);
    return cursor;
  }
};

inline Landing CheckingSink::on_header(PeerId peer, const wire::Header& header, size_t n) {
  FromPeer& place = from[peer];
  place.strided = header.tag % 2 == 1;
  if (place.strided) {
    place.type = std::make_shared<TypeOwner>(n);
    return {place.type->over(place.buffer, n), nullptr, 0};
  }
  place.buffer.resize(n);
  return {Cursor::bytes(place.buffer.data(), n), nullptr, 0};
}

inline void CheckingSink::on_landed(PeerId peer, const wire::Header& header, Landing&, size_t n, Error error) {
  if (error) {
    ++landed_with_error;
    return;
  }
  FromPeer& place = from[peer];
  if (!place.strided) {
    check(peer, header, place.buffer.data(), n);
    return;
  }
  std::vector<std::byte> packed(n);
  for (size_t i = 0; i < n; ++i) packed[i] = place.buffer[i / 7 * 10 + i % 7];
  check(peer, header, packed.data(), n);
}

/// One rank: path, engine.
struct TestRank {
  Tunables tunables;
  RealClock clock;
  CheckingSink sink;
  std::unique_ptr<ShmPath> path;
  Driving driving;
  KernelWait port;
  std::unique_ptr<ProgressEngine> engine;
  uint32_t rank;
  std::vector<uint32_t> sent;

  TestRank(uint32_t r, size_t ranks, std::unique_ptr<ShmNode> node, bool oversubscribed, const Tunables& values = {})
      : tunables(values), sink(ranks), rank(r), sent(ranks) {
    path = std::make_unique<ShmPath>(std::move(node), sink, tunables);
    engine = std::make_unique<ProgressEngine>(clock, driving, port, WaitPolicy::Setup::of(tunables, oversubscribed));
    engine->add(*path);
  }
};

/// Runs `body(rank, node)` in `ranks` processes that have joined one node; every one must return true.
inline void run_processes(int ranks, size_t ring_bytes,
                          const std::function<bool(int, std::unique_ptr<ShmNode>, Common&)>& body,
                          const std::vector<int>& may_die = {}) {
  Common* common = make_common();
  const auto key = test_key(uint64_t(ranks));
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ShmSetup setup;
      setup.rank = rank;
      for (int i = 0; i < ranks; ++i) setup.candidates.push_back(i);
      setup.job_key = key;
      setup.ring_bytes = ring_bytes;
      Error error;
      auto node = ShmNode::create(
          setup,
          [&] {
            common_fence(*common, ranks);
            return Error();
          },
          error);
      if (error) {
        fprintf(stderr, "rank %d: %s\n", rank, std::string(error.text()).c_str());
        _exit(9);
      }
      const bool good = body(rank, std::move(node), *common);
      fflush(nullptr);
      _exit(good && !::testing::Test::HasFailure() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[size_t(rank)], &status, 0), children[size_t(rank)]);
    bool excused = false;
    for (int r : may_die) excused |= r == rank;
    if (!excused) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << " status " << status;
    }
  }
  munmap(common, sizeof *common);
}

}  // namespace tern::test
