// One end of a conversation in the conformance cases: an adapter, a completion queue, registered memory; and a joined
// pair of queue pairs between two ends.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/rdma/hca_conformance.h"

namespace tern::rdma {

inline constexpr size_t kSideBytes = 1 << 20;
inline constexpr uint64_t kPatience_ns = 30'000'000'000;  ///< Soft-RoCE under emulation on a busy host is slow

#define TERN_OK(expression)                \
  do {                                     \
    const Error failed = (expression);     \
    ASSERT_FALSE(failed) << failed.text(); \
  } while (0)

struct Side {
  explicit Side(ConformanceBed& the_bed, int index) : bed(the_bed), hca(the_bed.adapter(index)), memory(kSideBytes) {}

  void open(const Access& access = {true, true, true, true}, uint32_t depth = 256) {
    TERN_OK(hca.make_completion_queue({depth, nullptr}, completions));
    TERN_OK(hca.register_memory(memory.data(), memory.size(), access, region));
  }
  std::byte* at(size_t offset) { return memory.data() + offset; }
  uint64_t address(size_t offset) { return uint64_t(uintptr_t(at(offset))); }
  Piece piece(size_t offset, size_t bytes) { return {address(offset), uint32_t(bytes), region->local_key()}; }
  uint64_t word(size_t offset) {
    hca.observe();
    uint64_t value;
    memcpy(&value, at(offset), 8);
    return value;
  }
  void set_word(size_t offset, uint64_t value) { memcpy(at(offset), &value, 8); }
  /// Bytes that tell their place and who they are from.
  void fill(size_t offset, size_t bytes, unsigned salt) {
    for (size_t i = 0; i < bytes; ++i) memory[offset + i] = std::byte((i * 31 + i / 251 + salt) & 0xff);
  }
  bool holds(size_t offset, size_t bytes, unsigned salt) {
    hca.observe();
    for (size_t i = 0; i < bytes; ++i)
      if (memory[offset + i] != std::byte((i * 31 + i / 251 + salt) & 0xff)) return false;
    return true;
  }

  QueuePairOptions options(QueuePairKind kind = QueuePairKind::rc) {
    QueuePairOptions o;
    o.kind = kind;
    o.sends = o.receives = completions.get();
    o.send_depth = o.receive_depth = 64;
    o.send_pieces = o.receive_pieces = 2;
    o.inline_bytes = std::min<uint32_t>(64, hca.capabilities().max_inline_bytes);
    return o;
  }

  /// Polls `queue` until `count` entries are there or patience ends (a failure).
  std::vector<Completion> await(CompletionQueue& queue, size_t count) {
    std::vector<Completion> all;
    const uint64_t deadline = bed.now_ns() + kPatience_ns;
    while (all.size() < count) {
      Completion entries[8];
      const size_t got = queue.poll(entries, std::min<size_t>(8, count - all.size()));
      all.insert(all.end(), entries, entries + got);
      if (got == 0) bed.pass();
      if (got == 0 && bed.now_ns() > deadline) {
        ADD_FAILURE() << "only " << all.size() << " of " << count << " completions came";
        all.resize(count, Completion{.id = ~uint64_t{0}, .status = Status::other});
      }
    }
    return all;
  }
  std::vector<Completion> await(size_t count) { return await(*completions, count); }
  Completion await_one() { return await(1)[0]; }
  /// Nothing more comes, as far as one can know by waiting a little.
  void expect_silence(uint64_t ns = 20'000'000) {
    const uint64_t until = bed.now_ns() + ns;
    Completion entry;
    while (bed.now_ns() < until) {
      ASSERT_EQ(completions->poll(&entry, 1), 0u)
          << "an entry with id " << entry.id << ": " << status_name(entry.status);
      bed.pass();
    }
  }

  /// Posts one request; `work` says everything but the piece.
  void post(QueuePair& pair, WorkRequest work, size_t offset, size_t bytes) {
    const Piece one = piece(offset, bytes);
    work.pieces = &one;
    work.piece_count = bytes > 0 ? 1 : 0;
    ASSERT_EQ(pair.post({&work, 1}), 1u);
  }
  void post_receive(QueuePair& pair, uint64_t id, size_t offset, size_t bytes) {
    const Piece one = piece(offset, bytes);
    const ReceiveRequest request{id, &one, 1};
    ASSERT_EQ(pair.post_receives({&request, 1}), 1u);
  }
  void post_receive(SharedReceiveQueue& srq, uint64_t id, size_t offset, size_t bytes) {
    const Piece one = piece(offset, bytes);
    const ReceiveRequest request{id, &one, 1};
    ASSERT_EQ(srq.post({&request, 1}), 1u);
  }

  ConformanceBed& bed;
  Hca& hca;
  std::vector<std::byte> memory;
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<CompletionQueue> completions;
};

/// Two sides and an RC connection between them. Queue pairs go first.
struct Pair {
  explicit Pair(ConformanceBed& bed, int first = 0, int second = 1) : a(bed, first), b(bed, second) {}
  void open(const Access& access = {true, true, true, true}) {
    a.open(access);
    b.open(access);
    if (::testing::Test::HasFatalFailure()) return;
    join(a.options(), b.options());
  }
  void join(const QueuePairOptions& of_a, const QueuePairOptions& of_b) {
    TERN_OK(a.hca.make_queue_pair(of_a, qa));
    TERN_OK(b.hca.make_queue_pair(of_b, qb));
    TERN_OK(qa->connect(qb->address()));
    TERN_OK(qb->connect(qa->address()));
  }
  Side a, b;
  std::unique_ptr<QueuePair> qa, qb;
};

inline WorkRequest request(Verb verb, uint64_t id) {
  WorkRequest work;
  work.verb = verb;
  work.id = id;
  return work;
}

inline WorkRequest remote(Verb verb, uint64_t id, Side& peer, size_t offset) {
  WorkRequest work = request(verb, id);
  work.remote_address = peer.address(offset);
  work.remote_key = peer.region->remote_key();
  return work;
}

/// By files: what works, and what must go wrong properly.
extern const std::vector<ConformanceCase> kDataCases, kAddressedCases, kErrorCases;

}  // namespace tern::rdma
