// A collective access in two phases (del Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk 1999): the file is
// cut into windows, each handled by one rank, its aggregator; the ranks' data go to (or come from) the aggregators by
// messages, and only those touch the file, in large pieces.
//
//   file     | window 0 | window 1 | window 2 | window 3 | ...
//   handled    A0         A1         A0         A1            (two aggregators)
//              round 0 ───────────┘  round 1 ───────────┘
//
// Views run forward through the file, so what a rank has in a window is one stretch of its stream: one message, without
// any list of offsets. Where its pieces lie the aggregator works out from the rank's pattern, which all ranks have been
// told once after the view was set (layouts.h). Ranks whose pattern is too long to be told send the pieces of each
// window along.
//
//   write   round r:  ranks send the parts of round r + 1; the aggregator has posted receives for them, gathers the
//                     window of round r, and writes it while the next one fills (two windows at a time)
//   read    round r:  the aggregator reads ahead the window of round r + 1, and sends the parts of round r
//
// Whatever goes wrong, every rank goes on with its messages to the end, then all learn of it.
// Units: bytes. Thread rule: under the rank's lock.
#pragma once

#include <memory>
#include <vector>

#include "io/accesses.h"

namespace tern::io {

/// A rank's statement about its part.
struct Member {
  uint64_t position = 0, bytes = 0;  ///< in its stream
  int64_t begin = 0, end = 0;        ///< file offsets; equal when there are no bytes
  uint64_t pieces = 0;               ///< in the file, about
  int64_t origin = 0;                ///< of a contiguous pattern: where the stream begins
  enum Form : uint32_t {
    contiguous,  ///< `origin` says all
    known,       ///< all ranks have been told its pattern
    told,        ///< they will be, in so many `words`
    listed,      ///< its pattern is too long: it sends the pieces of each window
    alone        ///< its view shows bytes twice: it reads by itself
  };
  uint32_t form = contiguous;
  uint32_t words = 0;
  uint64_t cold = 0;  ///< 1: the beginning of its part is not in the host's memory
};
static_assert(sizeof(Member) == 8 * sizeof(uint64_t));

class TwoPhase {
 public:
  /// `members` by rank; their patterns, null for those that are listed.
  TwoPhase(Communicator& comm, const Team& team, Access& access, int sequence, std::vector<Member> members,
           const KnownPatterns& patterns, bool disjoint);

  /// Whether to use two-phase, from what all ranks know.
  static bool pays(const Place& at, const Team& team, bool write, const std::vector<Member>& members);

  /// Moves this rank's bytes and, at aggregators, those of others.
  Flow write();
  Flow read();
  /// This rank has written.
  bool wrote() const { return wrote_; }

 private:
  /// The part of one rank in one window.
  struct Part {
    int rank = 0;
    uint64_t bytes = 0;
    uint64_t pieces = 0;               ///< of a listed rank
    const Pattern* pattern = nullptr;  ///< null: not here yet
    uint64_t from = 0;                 ///< in the pattern's stream
    std::unique_ptr<Pattern> own_pattern;
    std::vector<int64_t> list;  ///< of a listed rank: offsets and lengths of its pieces
    std::byte* data = nullptr;  ///< where its bytes are, or go
    Buffer buffer;              ///< of its own for them; or none
    bool in_place = false;      ///< that is their place in the block
    Request* list_request = nullptr;
    Request* request = nullptr;
  };
  /// One window at its aggregator.
  struct Window {
    bool sound = true;           ///< all its data have come
    int64_t begin = 0, end = 0;  ///< of the window
    int64_t low = 0, high = 0;   ///< of the data in it; equal: there are none
    int64_t base = 0;            ///< where in the file the block begins
    int64_t valid = 0;           ///< reading: bytes from `low` on that there are
    Buffer block, stage;
    std::vector<Part> parts;
    std::vector<Request*> transfers;  ///< to or from the file
    std::vector<iovec> pieces;        ///< of those
    std::vector<int> locks;
  };
  /// A message of this rank's own part.
  struct Message {
    Request* request = nullptr;
    Buffer buffer;    ///< the data; empty: the user's memory, or nothing
    uint64_t at = 0;  ///< of its bytes in the access
    uint64_t bytes = 0, got = 0;
    std::vector<int64_t> list;
    Request* list_request = nullptr;
  };

  int rounds() const { return int((windows_ + int64_t(aggregators_) - 1) / int64_t(aggregators_)); }
  int64_t window_begin(int64_t k) const { return first_ + k * size_; }
  void note(Error error);
  PointToPoint& p2p() const { return at_.environment.p2p(); }
  Request* send(const void* data, uint64_t bytes, int to, int tag);
  Request* receive(void* data, uint64_t bytes, int from, int tag);
  // Data and lists of pieces may go the same way at the same time, and are told apart by their tags.
  Request* send(const void* data, uint64_t bytes, int to) { return send(data, bytes, to, sequence_); }
  Request* receive(void* data, uint64_t bytes, int from) { return receive(data, bytes, from, sequence_); }
  static constexpr int kListTag = 0x40000000;  ///< a bit that sequence_ does not use
  Request* send_list(const std::vector<int64_t>& list, int to) {
    return send(list.data(), list.size() * sizeof(int64_t), to, sequence_ | kListTag);
  }
  Request* receive_list(std::vector<int64_t>& list, int from) {
    return receive(list.data(), list.size() * sizeof(int64_t), from, sequence_ | kListTag);
  }

  // All ranks.
  uint64_t own_stop(int64_t k) const;
  Flow tell_lists();
  std::vector<int64_t> list_pieces(uint64_t at, uint64_t bytes) const;
  void send_own(int round, std::vector<Message>& messages);
  Flow finish_sends(std::vector<Message>& messages);
  void receive_own(int round, std::vector<Message>& messages);
  Flow take_own(std::vector<Message>& messages);

  // Aggregators.
  bool open_window(int round, Window& window);
  void find_part(int rank, int round, Window& window);
  void post_parts(Window& window);
  Flow take_lists(Window& window);
  Flow fill(Window& window);
  void begin_write(Window& window);
  bool covered(const Window& window) const;
  Buffer map_of(const Window& window);
  void begin_transfer(Window& window, bool write, int64_t begin, int64_t end);
  bool change_block(Window& window, const Buffer& map, size_t runs);
  Flow finish_transfers(Window& window);
  void begin_read(Window& window);
  void send_parts(Window& window, std::vector<Message>& own);
  Flow finish_parts(Window& window);

  const Place at_;
  Communicator& comm_;
  const Team& team_;
  Access& access_;
  const int sequence_;
  const std::vector<Member> members_;
  const KnownPatterns& patterns_;
  const int rank_;
  const size_t aggregators_;
  int mine_ = -1;  ///< my place among the aggregators; -1: none
  int64_t first_ = 0, size_ = 0, windows_ = 0;
  const bool disjoint_;  ///< no byte belongs to two ranks; false: perhaps
  uint64_t sent_ = 0;    ///< bytes of the access that are sent, or asked for
  bool wrote_ = false;
  bool whole_ = true;  ///< reading: no byte was missing so far
  /// Of listed ranks, by rank: bytes and pieces in each of my windows.
  std::vector<std::vector<int64_t>> listed_;
  Cursor memory_;
  Error error_;
};

}  // namespace tern::io
