// The layout of the shared-memory segment: what every rank of a node maps.
//
//   head | rank blocks, one per rank | progress lines, one per ordered pair | rates, one per pair | arenas, one per
//   rank | lent memory, one piece per rank | pairs pair (receiver, sender): 128 control cells (two pages) | data ring |
//   spill cells
//
// Everything starts as zero pages and is touched when first used, so the resident size follows the pairs that
// communicate. Positions and sequence numbers only grow; the receiver publishes its progress now and then.
// Units: bytes. Thread rule: the atomics say who writes what; everything else is written by one side before
// it publishes and read by the other after it has seen the publication.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/adapter_share.h"
#include "fabric/shm/copy_rates.h"
#include "wire/header.h"

namespace tern::shm {

/// Ranks of one node: twice what the largest nodes have as cores (256); bounds the head's table of ranks.
inline constexpr uint32_t kMaxRanks = 512;
inline constexpr uint32_t kMagic = 0x6e726574;  // "tern" in memory order
/// Of one ordered pair: two pages, and more than the usual window of a message-rate program (64), whose sends would
/// otherwise queue.
inline constexpr uint32_t kCells = 128;
/// Of a sender's own the last cell is kept for CellKind::moved.
inline constexpr uint32_t kUsableCells = kCells - 1;
/// What a rank posts while the ring of an ordered pair is full (Path::try_post): announcements and completions of a
/// thousand receives, and of as many messages, fit in, so that they need no later call of the rank that made them.
/// Fewer where address space is limited (Layout::fit_into); powers of two, since sequence numbers wrap around.
inline constexpr uint32_t kSpillCells = 4096;
inline constexpr size_t kInlineBytes = 32;  // what a cache line has left after the header (24) and the sequence (8)
inline constexpr size_t kLine = 64;         // cache line
inline constexpr size_t kPage = 4096;
inline constexpr size_t kArenaBytes = size_t{4} << 20;  ///< per rank, of address space; see node_memory.h
inline constexpr size_t kLentBytes = size_t{2} << 20;   ///< per rank, of address space; CopyArbiter::lend

/// One control cell: one cache line, so that a small message moves exactly one.
struct alignas(kLine) Cell {
  /// High half: the sequence number of the message in its ring (from 1), which makes the cell valid. Low
  /// half: kind in the two highest bits, and bytes in the cell or (for chunks) in the data ring.
  std::atomic<uint64_t> word;
  wire::Header header;
  std::byte body[kInlineBytes];
};
static_assert(sizeof(Cell) == kLine);

enum class CellKind : uint32_t {
  message = 0,    ///< a whole message, payload in body
  first = 1,      ///< a message whose payload begins in the data ring: body is a Chunk
  continued = 2,  ///< the next piece of it; header is not valid
  moved = 3,      ///< no message: those that follow are in the spill cells, or in the ring again
};
inline constexpr uint32_t kKindShift = 30;  // of the kind in a cell's low half

/// A cell of messages that the ring had no room for.
struct alignas(kLine) SpillCell {
  std::atomic<uint64_t> word;  ///< as Cell::word
  wire::Header header;
  std::byte body[3 * kLine / 2];
};
static_assert(sizeof(SpillCell) == 2 * kLine);

struct Chunk {
  uint64_t total_bytes;  ///< of the message
  uint64_t end;          ///< data ring position after this chunk: consumed up to here when it is read
  uint32_t offset;       ///< of the first byte in the data ring
  uint32_t reserved;
  uint64_t began_ns;  ///< of a message's first chunk: when its sender began (CLOCK_MONOTONIC); 0: not to be timed
};
static_assert(sizeof(Chunk) == 32 && sizeof(Chunk) <= kInlineBytes);

/// Into a cell, word by word: a copy in larger pieces would wait until the stores that made the chunk have left the
/// store buffer (see wire::make_header).
inline void put_chunk(std::byte* body, const Chunk& chunk) {
  using Word [[gnu::may_alias]] = uint64_t;
  auto* words = reinterpret_cast<Word*>(body);
  words[0] = chunk.total_bytes;
  words[1] = chunk.end;
  words[2] = chunk.offset;
  words[3] = chunk.began_ns;
}

inline uint64_t cell_word(uint32_t sequence, CellKind kind, uint32_t bytes) {
  return (uint64_t{sequence} << 32) | (uint64_t(kind) << kKindShift) | bytes;
}

/// How much the receiver of one ordered pair has consumed. Written by the receiver, read by the sender when it
/// considers the ring full.
struct alignas(kLine) Progress {
  std::atomic<uint32_t> cells;  ///< cells consumed
  std::atomic<uint64_t> data;   ///< data ring position consumed
};
static_assert(sizeof(Progress) == kLine);

/// Bits of RankBlock::asleep.
inline constexpr uint32_t kAsleep = 1;      ///< ring the doorbell after sending to this rank
inline constexpr uint32_t kWantsSpace = 2;  ///< and also after consuming what this rank has sent
inline constexpr uint32_t kHelped = 4;      ///< its event thread sleeps: the rank itself may be computing

struct alignas(kLine) RankBlock {
  /// Set by its owner before it sleeps, cleared by the rank that rings the doorbell (exactly one does) or by the
  /// owner. Alone in its line: every sender reads it with every message.
  alignas(kLine) std::atomic<uint32_t> asleep;

  alignas(kLine) std::atomic<uint32_t> left;  ///< 1: this rank has ended in order; its death is no loss
  int32_t pid;                                ///< in its own pid namespace
  uint64_t pid_namespace;                     ///< inode of it
  uint64_t probe_address;         ///< of 16 bytes in its private memory, for the trial of cross-memory attach
  uint64_t probe_value;           ///< value of the first word there; peers may write it to the second
  uint32_t full_fence;            ///< 1: membarrier is not available to this rank
  uint32_t engines;               ///< how many message engines it wants (p2p/engines.h)
  std::atomic<uint32_t> ready;    ///< the fields above are valid
  std::atomic<uint32_t> present;  ///< written by the leader: part of the final list
  AdapterUse adapter;             ///< of its RDMA adapter

  /// Goes up in every poll while a peer may want to know whether this rank is polling (CopyArbiter::peer_is_polling).
  alignas(kLine) std::atomic<uint32_t> beat;
  std::atomic<uint32_t> copying;  ///< 1: in a copy by cross-memory attach, after which it polls

  /// Ranks that have ever sent to this rank: only their rings are polled.
  alignas(kLine) std::atomic<uint64_t> senders[kMaxRanks / 64];
};

struct alignas(kPage) SegmentHead {
  uint32_t magic;
  uint32_t ranks;                 ///< slots
  uint64_t ring_bytes;            ///< of each data ring, a multiple of kPage
  std::atomic<uint32_t> settled;  ///< the leader has written every `present`
  int32_t rank_of[kMaxRanks];     ///< world rank of each slot, ascending
};

/// Where things are; every rank computes the same.
struct Layout {
  uint32_t ranks = 0;
  size_t ring_bytes = 0;
  uint32_t spill_cells = kSpillCells;

  static constexpr size_t up(size_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }
  size_t blocks() const { return sizeof(SegmentHead); }
  size_t progress() const { return up(blocks() + ranks * sizeof(RankBlock)); }
  size_t rates() const { return up(progress() + size_t{ranks} * ranks * sizeof(Progress)); }
  size_t arenas() const { return up(rates() + size_t{ranks} * ranks * sizeof(PairRates)); }
  size_t lent() const { return arenas() + ranks * kArenaBytes; }
  size_t pairs() const { return lent() + ranks * kLentBytes; }
  size_t pair_bytes() const { return kCells * sizeof(Cell) + ring_bytes + spill_cells * sizeof(SpillCell); }
  size_t total() const { return pairs() + size_t{ranks} * ranks * pair_bytes(); }

  /// Reduces the number of spill cells until the segment takes at most half of a process's address space (bytes). None
  /// are left where there would be no more of them than a ring has cells; the rings keep their size.
  void fit_into(uint64_t address_space) {
    while (spill_cells != 0 && total() > address_space / 2)
      spill_cells = spill_cells > 2 * kCells ? spill_cells / 2 : 0;
  }
};

}  // namespace tern::shm
