// What both directions share: which rank has what in which window, and the messages of a rank's own part.
#include "io/two_phase.h"

#include <algorithm>

#include "base/assert.h"

namespace tern::io {

namespace {
// The least window: below, a message and a write cost more than the copy they save.
constexpr int64_t kMinWindowBytes = 64 * 1024;
// Pieces from this size on are as fast written where they come from as sent first. In the page cache of a local file a
// call costs less than the exchange (bench/io, interleaved blocks of two ranks): a read from 4 KiB on; a write, which
// locks the file, from 32 KiB on.
constexpr uint64_t kLargePieceBytes = 1 << 20, kLargeCachedReadBytes = 3072, kLargeCachedWriteBytes = 32 * 1024;
// If the file's extent is so many times larger than the data, most windows would be empty.
constexpr int64_t kSparse = 64;
// On several hosts, each its own client of a server, small parts are better written by few.
constexpr uint64_t kSmallPartBytes = 256 * 1024;
}  // namespace

bool TwoPhase::pays(const Place& at, const Team& team, bool write, const std::vector<Member>& members) {
  const Wish wish = write ? at.hints.collective_write : at.hints.collective_read;
  if (wish == Wish::disable || !at.file.facts.regular) return false;
  uint64_t bytes = 0, pieces = 0;
  bool cached = !at.file.facts.remote;
  bool dense = !at.file.facts.in_memory;  // nobody has large holes between its pieces
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const Member& member : members) {
    if (member.bytes == 0 || member.form == Member::alone) continue;
    bytes += member.bytes;
    pieces += member.pieces;
    cached = cached && member.cold == 0;
    dense = dense && uint64_t(member.end - member.begin) <= kMaxReadShare * member.bytes;
    spans.emplace_back(member.begin, member.end);
  }
  if (spans.empty()) return false;
  if (wish == Wish::enable) return true;
  std::sort(spans.begin(), spans.end());
  bool interleaved = false;
  int64_t end = spans[0].second;
  for (size_t i = 1; i < spans.size(); ++i) {
    interleaved |= spans[i].first < end;
    end = std::max(end, spans[i].second);
  }
  if ((end - spans[0].first) / kSparse > int64_t(bytes)) return false;
  if (!interleaved)
    return spans.size() > 1 && at.file.facts.remote && team.nodes > 1 && bytes / spans.size() < kSmallPartBytes;
  if (!write && cached && dense && at.hints.sieve_read != Wish::disable) return false;
  const uint64_t large = !cached ? kLargePieceBytes : write ? kLargeCachedWriteBytes : kLargeCachedReadBytes;
  return bytes / std::max<uint64_t>(pieces, 1) < large;
}

TwoPhase::TwoPhase(Communicator& comm, const Team& team, Access& access, int sequence, std::vector<Member> members,
                   const KnownPatterns& patterns, bool disjoint)
    : at_(access.at),
      comm_(comm),
      team_(team),
      access_(access),
      sequence_(sequence),
      members_(std::move(members)),
      patterns_(patterns),
      rank_(comm.rank()),
      aggregators_(team.aggregators.size()),
      disjoint_(disjoint),
      memory_(access.memory()) {
  int64_t low = INT64_MAX, high = 0;
  for (const Member& member : members_) {
    if (member.bytes == 0 || member.form == Member::alone) continue;
    low = std::min(low, member.begin);
    high = std::max(high, member.end);
  }
  // All aggregators have some of a small range, unless the file system's stripes say how to cut.
  int64_t share = (high - low) / int64_t(aggregators_) + 1;
  share = (share + kMinWindowBytes - 1) / kMinWindowBytes * kMinWindowBytes;
  size_ = at_.hints.stripe > 0 ? team.window : std::min(team.window, share);
  first_ = low / size_ * size_;
  windows_ = (high - first_ + size_ - 1) / size_;
  const auto& list = team.aggregators;
  const auto me = std::find(list.begin(), list.end(), rank_);
  if (me != list.end()) mine_ = int(me - list.begin());
}

void TwoPhase::note(Error error) {
  if (error && !error_) error_ = std::move(error);
}

Request* TwoPhase::send(const void* data, uint64_t bytes, int to, int tag) {
  return p2p().isend({data, Count(bytes), &at_.environment.byte(), comm_.peer(to), rank_, tag, comm_.context()});
}

Request* TwoPhase::receive(void* data, uint64_t bytes, int from, int tag) {
  return p2p().ireceive({data, Count(bytes), &at_.environment.byte(), comm_.peer(from), from, tag, comm_.context()});
}

// --- A rank's own part.

/// How much of the access lies below the end of window k.
uint64_t TwoPhase::own_stop(int64_t k) const {
  if (access_.bytes == 0 || members_[size_t(rank_)].form == Member::alone) return 0;
  const uint64_t below = access_.pattern().below(window_begin(k + 1));
  return std::clamp(below, access_.position, access_.position + access_.bytes) - access_.position;
}

std::vector<int64_t> TwoPhase::list_pieces(uint64_t at, uint64_t bytes) const {
  std::vector<int64_t> list;
  Cursor cursor = access_.pattern().cursor(nullptr, access_.position + at, bytes);
  iovec pieces[64];
  while (cursor.remaining() > 0) {
    size_t length = 0;
    const size_t n = cursor.segments(pieces, SIZE_MAX, length);
    for (size_t i = 0; i < n; ++i) {
      list.push_back(reinterpret_cast<intptr_t>(pieces[i].iov_base));
      list.push_back(int64_t(pieces[i].iov_len));
    }
  }
  return list;
}

/// A listed rank tells each aggregator how much it has in each of its windows, and in how many pieces.
Flow TwoPhase::tell_lists() {
  std::vector<std::vector<int64_t>> outgoing;
  std::vector<Request*> requests;
  const auto words = size_t(2 * rounds());
  listed_.resize(members_.size());
  if (members_[size_t(rank_)].form == Member::listed) {
    outgoing.assign(aggregators_, std::vector<int64_t>(words));
    uint64_t at = 0;
    for (int64_t k = 0; k < windows_; ++k) {
      const uint64_t stop = own_stop(k);
      int64_t* entry = outgoing[size_t(k) % aggregators_].data() + 2 * (size_t(k) / aggregators_);
      entry[0] = int64_t(stop - at);
      entry[1] = int64_t(list_pieces(at, stop - at).size() / 2);
      at = stop;
    }
    for (size_t a = 0; a < aggregators_; ++a) {
      if (int(a) == mine_) continue;
      requests.push_back(send_list(outgoing[a], team_.aggregators[a]));
    }
  }
  for (size_t r = 0; r < members_.size() && mine_ >= 0; ++r) {
    if (members_[r].form != Member::listed || int(r) == rank_) continue;
    listed_[r].assign(words, 0);
    requests.push_back(receive_list(listed_[r], int(r)));
  }
  for (Request* request : requests) {
    Outcome outcome = co_await Done(p2p(), request, access_.blocking);
    note(std::move(outcome.error));
  }
  co_return Error();
}

void TwoPhase::send_own(int round, std::vector<Message>& messages) {
  const bool listed = members_[size_t(rank_)].form == Member::listed;
  for (size_t a = 0; a < aggregators_; ++a) {
    const int64_t k = int64_t(round) * int64_t(aggregators_) + int64_t(a);
    if (k >= windows_) break;
    const uint64_t stop = own_stop(k);
    if (stop == sent_) continue;
    Message message;
    message.at = sent_;
    message.bytes = stop - sent_;
    sent_ = stop;
    if (int(a) == mine_) continue;  // taken from memory when the window is filled
    const int to = team_.aggregators[a];
    if (listed) {
      message.list = list_pieces(message.at, message.bytes);
      message.list_request = send_list(message.list, to);
    }
    memory_.seek(message.at);
    const std::byte* data = nullptr;
    uint64_t bytes = message.bytes;
    if (memory_.is_contiguous()) {
      data = memory_.contiguous_data();
    } else if ((message.buffer = at_.environment.buffer(message.bytes))) {
      memory_.pack(message.buffer.data(), message.bytes);
      data = message.buffer.data();
    } else {
      note(Error(ErrorClass::no_mem, "no memory for " + std::to_string(bytes) + " bytes of file data on their way"));
      bytes = 0;  // the aggregator sees that something is missing
    }
    message.request = send(data, bytes, to);
    messages.push_back(std::move(message));
  }
}

Flow TwoPhase::finish_sends(std::vector<Message>& messages) {
  for (Message& message : messages) {
    if (message.list_request) {
      Outcome listed = co_await Done(p2p(), message.list_request, access_.blocking);
      note(std::move(listed.error));
    }
    Outcome sent = co_await Done(p2p(), message.request, access_.blocking);
    note(std::move(sent.error));
  }
  messages.clear();
  co_return Error();
}

// --- Windows at their aggregator.

void TwoPhase::find_part(int rank, int round, Window& window) {
  const Member& member = members_[size_t(rank)];
  if (member.bytes == 0 || member.form == Member::alone) return;
  Part part;
  part.rank = rank;
  if (member.form == Member::listed && rank != rank_) {
    part.bytes = uint64_t(listed_[size_t(rank)][size_t(2 * round)]);
    part.pieces = uint64_t(listed_[size_t(rank)][size_t(2 * round + 1)]);
  } else {
    if (member.end <= window.begin || member.begin >= window.end) return;
    part.pattern = rank == rank_ ? &access_.pattern() : patterns_.of[size_t(rank)].get();
    const uint64_t last = member.position + member.bytes;
    part.from = std::clamp(part.pattern->below(window.begin), member.position, last);
    part.bytes = std::clamp(part.pattern->below(window.end), member.position, last) - part.from;
  }
  if (part.bytes != 0) window.parts.push_back(std::move(part));
}

/// False: this rank has no window in that round.
bool TwoPhase::open_window(int round, Window& window) {
  window = Window();
  const int64_t k = int64_t(round) * int64_t(aggregators_) + mine_;
  if (mine_ < 0 || k >= windows_) return false;
  window.begin = window_begin(k);
  window.end = window.begin + size_;
  window.base = window.begin;
  for (int rank = 0; rank < int(members_.size()); ++rank) find_part(rank, round, window);
  for (Part& part : window.parts) {
    if (part.pattern) continue;
    part.list.assign(size_t(2 * part.pieces), 0);
    part.list_request = receive_list(part.list, part.rank);
  }
  return true;
}

/// Lists become patterns; then the extent of the data is known.
Flow TwoPhase::take_lists(Window& window) {
  for (Part& part : window.parts) {
    if (!part.list_request) continue;
    Outcome outcome = co_await Done(p2p(), std::exchange(part.list_request, nullptr), access_.blocking);
    if (outcome.error || outcome.status.bytes != Count(part.list.size() * sizeof(int64_t))) {
      note(std::move(outcome.error));
      window.sound = false;
      continue;
    }
    std::vector<int64_t> offsets, lengths;
    for (size_t i = 0; i < part.list.size(); i += 2) {
      offsets.push_back(part.list[i]);
      lengths.push_back(part.list[i + 1]);
    }
    part.own_pattern = std::make_unique<Pattern>(0, 0, layout::pieces(std::move(offsets), std::move(lengths)));
    part.pattern = part.own_pattern.get();
    part.from = 0;
  }
  window.low = INT64_MAX;
  window.high = 0;
  for (const Part& part : window.parts) {
    if (!part.pattern) continue;
    window.low = std::min(window.low, part.pattern->offset_of(part.from));
    window.high = std::max(window.high, part.pattern->end_of(part.from + part.bytes));
  }
  if (window.high == 0) window.low = window.high = window.begin;
  co_return Error();
}

void TwoPhase::begin_transfer(Window& window, bool write, int64_t begin, int64_t end) {
  TERN_ASSERT(begin >= window.base && begin <= end && size_t(end - window.base) <= window.block.size());
  window.pieces.push_back({window.block.data() + (begin - window.base), size_t(end - begin)});
  window.locks.push_back(write ? at_.locks.enter(begin, end) : -1);
  window.transfers.push_back(
      at_.environment.transfer(at_.file, write, &window.pieces.back(), 1, begin, access_.blocking));
}

Flow TwoPhase::finish_transfers(Window& window) {
  TERN_ASSERT(window.locks.size() >= window.transfers.size());
  for (size_t i = 0; i < window.transfers.size(); ++i) {
    Outcome outcome = co_await Done(p2p(), window.transfers[i], access_.blocking);
    at_.locks.leave(window.locks[i]);
    window.valid = outcome.status.bytes;
    note(std::move(outcome.error));
  }
  window.transfers.clear();
  co_return Error();
}

}  // namespace tern::io
