// One access of one rank to a file: which bytes of memory, which bytes of the file, and its result. Here are
// also the ways in which a rank moves them by itself:
//
//   one piece    the stream lies in the file in one piece: one transfer, from or to the pieces in memory
//   sieve        read a block with the wanted pieces and the holes between, copy the pieces out of it (Thakur, Gropp,
//   Lusk,
//                "Data Sieving and Collective I/O in ROMIO", 1999). For writing: read the block, change it, write it
//                back, while nobody else may write there (range_locks.h)
//   list         a transfer for each piece
//
// All are flows (coll/create/flow.h): a blocking call runs one without ever suspending, a nonblocking one continues in
// polls. Units: bytes in the file's representation. Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "coll/create/flow.h"
#include "io/environment.h"
#include "io/hints.h"
#include "io/range_locks.h"
#include "io/view.h"

namespace tern::io {

using create::Flow;

/// Up to this span of the file, a piece of data and the hole behind it, moving the whole block is cheaper than one more
/// call. (Page cache of ext4; tmpfs is cheaper: a read takes 0.7 us, a write 3 to 6, and a block is copied at some
/// GB/s.) Remote: each call is a message to a server.
inline constexpr int64_t kSieveSpanBytes = 8192, kRemoteSieveSpanBytes = 512 * 1024;

/// In a collective read each rank reads for itself if its part of the file is at most this many times its data.
/// (Two ranks, pieces of 64 B to 4 KiB by turns: 1.3 to 1.8 ms for 4 MiB each, in two phases 1.8 to 2.3: bench/io.)
inline constexpr uint64_t kMaxReadShare = 3;

/// What became of a request: awaited instead of create::Completion where the number of bytes is wanted, or where the
/// caller may block.
struct Outcome {
  Error error;
  Status status;
};
struct Done : create::Completion {
  /// `blocking`: waits here, so that the flow does not suspend.
  Done(PointToPoint& p2p, Request* awaited, bool blocking) : Completion(awaited) {
    if (blocking) p2p.wait(*awaited);
  }
  Outcome await_resume() {
    Outcome outcome{std::move(request->error), request->status};
    request->release();
    return outcome;
  }
};

/// Where an access happens. Parts of an open file, which outlive it.
struct Place {
  Environment& environment;
  OpenFile& file;
  const Hints& hints;
  RangeLocks& locks;
};

class Access {
 public:
  Access(Place place, bool writing, bool waits, std::shared_ptr<const View> seen)
      : at(place), write(writing), blocking(waits), view(std::move(seen)) {}
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  /// Describes the memory, and converts what is to be written. Error: no memory, or what the user's callbacks say; then
  /// there are no bytes.
  Error set_memory(void* buffer, Count count, Datatype& type);
  /// After the transfer of `moved` bytes: converts the data read. Returns the number of bytes in memory for the status.
  Error finish(Count& memory_bytes);
  /// Nothing is to be moved (but in a collective access this rank takes part).
  void forget() { bytes = 0; }

  const Pattern& pattern() const { return view->pattern(write); }
  /// File offsets of the first byte and after the last one. Only when there are bytes.
  int64_t begin() const { return pattern().offset_of(position); }
  int64_t end() const { return pattern().end_of(position + bytes); }
  Cursor memory() const { return stream_; }
  /// Contiguous pieces in memory, about.
  double pieces_in_memory() const;

  Place at;
  const bool write, blocking;
  const std::shared_ptr<const View> view;
  bool crowded = false;   ///< a part of a collective access: other ranks touch the file at the same time
  uint64_t position = 0;  ///< in the view's stream
  uint64_t bytes = 0;     ///< to be moved
  uint64_t moved = 0;     ///< from `position` on

 private:
  void* buffer_ = nullptr;
  Count count_ = 0;
  Ref<Datatype> type_;
  std::unique_ptr<std::byte[]> converted_;  ///< the data as they are in the file; null: the user's memory serves
  Cursor stream_;
};

/// Moves the bytes without others' help. Plain: holds no locks but those of sieving.
Flow move_alone(Access& access);

/// Copies between two cursors until one of them ends.
void copy(Cursor& from, Cursor& to);

}  // namespace tern::io
